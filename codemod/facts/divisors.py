"""A divisor that a function knows in its own names, said in the names of its caller."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from .heap import VARS
from .losses import is_pure
from .places import stands_in
from .replacing import replace
from .values import VARIES, Batch, Dep, FunctionRef, Value

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

RETURNED = "returned"
HIDDEN = "its divisor is computed inside the function that returns it"


def translate(ip: Interpreter, value: Value, ref: FunctionRef, arguments: Arguments, node: ast.Call) -> Value:
    """What a function returns, seen by its caller: the divisors of reduced values in terms of the call's arguments."""
    if value.objs:
        value = replace(value, objs=frozenset(_returned(ip, cell, ref, arguments, node) for cell in value.objs))
    if value.items is not None:
        return replace(value, items=tuple(translate(ip, v, ref, arguments, node) for v in value.items))
    if value.element is not None and has_divisor(ip, value.element):
        value = replace(value, element=translate(ip, value.element, ref, arguments, node))
    if value.dep is not Dep.PENDING or value.batch.by is None:
        return value
    text = _renamed(ip, value.batch.by, ref, arguments, node)
    if text is None:
        return replace(value, batch=Batch(Dep.UNKNOWN, reason=HIDDEN))
    return replace(value, batch=replace(value.batch, by=text))


def has_divisor(ip: Interpreter, value: Value, depth: int = 3) -> bool:
    """Whether a value is, or holds, one that waits for a reduction by a divisor that is written down."""
    if value.dep is Dep.PENDING and value.batch.by is not None:
        return True
    cells = [ip.heap[cell] for cell in value.objs] if depth else []
    held = [*(value.items or ()), *([value.element] if value.element is not None else [])]
    held += [item for cell in cells if not cell.roles for item in (*cell.attrs.values(), cell.element)]
    return any(has_divisor(ip, item, depth - 1) for item in held if depth)


def _returned(ip: Interpreter, index: int, ref: FunctionRef, arguments: Arguments, node: ast.Call) -> int:
    """An object that a function returns (a dict, an output with a `loss`), as its caller sees it: another cell."""
    held = ip.heap[index]
    if held.roles or held.kind in ("kwargs", VARS) or not has_divisor(ip, Value(objs=frozenset({index}))):
        return index
    seen: Callable[[Value], Value] = hidden
    if _comes_from(ip, index, node):
        copy = index
    else:
        context = (index, node)
        copy = ip.heap.allocate(held.node, RETURNED, context=context, cls=held.cls, ref=held.ref, loops=held.loops)
        seen = partial(translate, ip, ref=ref, arguments=arguments, node=node)
    for name, value in list(held.attrs.items()):
        ip.heap.store(copy, name, seen(value))
    ip.heap.add(copy, seen(held.element))
    return copy


def _comes_from(ip: Interpreter, index: int, node: ast.Call) -> bool:
    """Whether an object came out of this call before: a function that calls itself."""
    while ip.heap[index].kind == RETURNED:
        before, call = ip.heap[index].context
        if call is node or before is None:
            return True
        index = before
    return False


def hidden(value: Value) -> Value:
    """A value whose divisor has no name where it is used."""
    told = value.dep is not Dep.PENDING or value.batch.by is None
    return value if told else replace(value, batch=Batch(Dep.UNKNOWN, reason=HIDDEN))


def stored(ip: Interpreter, index: int, value: Value, frame: Frame) -> Value:
    """A value that a forward puts into an object that it did not make: whoever takes it out has other names."""
    held = ip.heap[index]
    maker = held.context[1] if held.kind == RETURNED else held.node
    inside = frame.node is not None and stands_in(ip.parents, maker, frame.node)
    return value if not frame.forward or index == frame.self_cell or inside else hidden(value)


def taken(index: int, name: str, value: Value, frame: Frame) -> Value:
    """A value that a module keeps, in another function than the one that put it there."""
    if index == frame.self_cell and frame.node is not None:
        stores = (node for node in ast.walk(frame.node) if isinstance(node, ast.Attribute) and node.attr == name)
        if any(isinstance(node.ctx, ast.Store) for node in stores):
            return value
    return hidden(value)


def _renamed(ip: Interpreter, by: str, ref: FunctionRef, arguments: Arguments, node: ast.Call) -> str | None:
    """The divisor's text with parameters replaced by arguments, `None` if a local name is in it."""
    given = _given(ip, ref, arguments, node)
    tree = _of_parameters(ref.node, ast.parse(by, mode="eval").body)
    for part in ast.walk(tree) if tree is not None else ():
        if isinstance(part, ast.Name) and part.id not in given:
            given[part.id] = _of_module(ip, part.id, ref.node, node)
    if tree is None or any(given[part.id] is None for part in ast.walk(tree) if isinstance(part, ast.Name)):
        return None

    class Rename(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.AST:
            text = given.get(name.id)
            return name if text is None else ast.parse(text, mode="eval").body

    return ast.unparse(Rename().visit(tree))


def _of_parameters(function: ast.AST, by: ast.expr, depth: int = 4) -> ast.expr | None:
    """A divisor with what local names stand for in their place, `None` where that can't be written again:
    `shift_labels = labels[:, 1:].contiguous()`."""
    bound = _bindings(function)
    names = {part.id for part in ast.walk(by) if isinstance(part, ast.Name)} & set(bound)
    if not names:
        return by
    told = {name: bound[name][0] for name in names if len(bound[name]) == 1}
    if not depth or len(told) < len(names) or any(value is None or not is_pure(value) for value in told.values()):
        return None

    class Write(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.AST:
            value = told.get(name.id)
            return name if value is None else ast.parse(ast.unparse(value), mode="eval").body

    return _of_parameters(function, Write().visit(ast.parse(ast.unparse(by), mode="eval").body), depth - 1)


def _of_module(ip: Interpreter, name: str, function: ast.AST, call: ast.Call) -> str | None:
    """What a name that is no parameter of a function is where it is called: a number of another file is written out."""
    if ip.names.module(function) is ip.names.module(call):
        return name
    there, here = (ip.frame_of(node).env.get(name) for node in (function, call))
    if there is None or (there == here and there.const is not VARIES):
        return name if there == here else None
    return repr(there.const) if type(there.const) is int else None


def _bindings(function: ast.AST) -> dict[str, list[ast.expr | None]]:
    """The names that a function binds, or whose tensors it changes, each time with the expression that it is bound to
    by a plain assignment."""
    found: dict[str, list[ast.expr | None]] = {}
    plain = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            plain.add(node.targets[0])
            found.setdefault(node.targets[0].id, []).append(node.value)
    for node in ast.walk(function):
        changed: ast.AST | None = None
        if isinstance(node, ast.Name) and node not in plain:
            changed = node if isinstance(node.ctx, ast.Store) else None
        elif isinstance(node, ast.Subscript):
            changed = node.value if isinstance(node.ctx, ast.Store) else None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            changed = node.func.value if name.endswith("_") and not name.endswith("__") else None
        if isinstance(changed, ast.Name):
            found.setdefault(changed.id, []).append(None)
    return found


def _given(ip: Interpreter, ref: FunctionRef, arguments: Arguments, node: ast.Call) -> dict[str, str | None]:
    """Source text of the argument of each parameter, `None` where it can't be written again."""
    args = ref.node.args
    names = [a.arg for a in [*args.posonlyargs, *args.args]]
    given: dict[str, str | None] = {}
    if ref.bound is not None and names:
        holder = node.func
        if isinstance(holder, ast.Attribute) and getattr(ref.node, "name", "") == holder.attr:
            holder = holder.value
        given[names.pop(0)] = ip.text(holder)
    ahead = sum(isinstance(key, int) for key, _ in ref.given)  # given by `partial`, somewhere else
    for index, name in enumerate(names[ahead:]):
        if index < len(arguments.positional):
            given[name] = _of_position(ip, arguments, index)
        else:
            given[name] = of_name(ip, arguments, name)
    return given | {a.arg: of_name(ip, arguments, a.arg) for a in args.kwonlyargs}


def _of_position(ip: Interpreter, arguments: Arguments, index: int) -> str | None:
    """Source text of an argument that is given by position."""
    expression, _ = arguments.positional[index]
    starred = [item for item in arguments.node.args if isinstance(item, ast.Starred)]
    text = ip.text(expression) if is_pure(expression) else None
    if text is None or not any(item.value is expression for item in starred):
        return text
    first = next(i for i, (item, _) in enumerate(arguments.positional) if item is expression)
    return f"{text}[{index - first}]" if arguments.star is None else None


def of_name(ip: Interpreter, arguments: Arguments, name: str) -> str | None:
    """Source text of an argument that is given by name, or lies under it in a mapping that is unpacked."""
    operand = arguments.keywords.get(name, arguments.rest)
    if operand is None or not is_pure(operand[0]):
        return None
    text = ip.text(operand[0])
    return f"{text}[{name!r}]" if any(operand[0] is node for node, _ in arguments.unpacked) else text
