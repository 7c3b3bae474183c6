"""Abstract interpretation: calls, of the program's functions, classes and models, and of everything outside."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import (
    attributes,
    binding,
    builtin,
    divisors,
    expressions,
    externals,
    instances,
    methods,
    models,
    order,
    partial,
    pieces,
    statements,
)
from .arguments import Arguments
from .binding import Given
from .frame import Frame
from .joins import join_all
from .places import stands_in
from .replacing import replace
from .values import EMPTY, HOST, Dep, FunctionRef, Role, Value

if TYPE_CHECKING:
    from .interpreter import Interpreter

MAX_DEPTH = 24
NAMED = "collections.namedtuple."


def call(ip: Interpreter, node: ast.Call, frame: Frame) -> Value:
    """Value of a call expression."""
    callee = expressions.evaluate(ip, node.func, frame)
    receiver = ip.receivers.get(node.func, EMPTY)
    if isinstance(node.func, ast.Attribute) and _is_super(node.func.value):
        return _super_call(ip, node, frame)
    arguments = Arguments(ip, node, frame)
    arguments.receiver = receiver
    ip.made.written.pop(node, None)
    value = dispatch(ip, node, callee, arguments, frame)
    return attributes.arrive_or_keep(ip, node, value, frame)


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _super_call(ip: Interpreter, node: ast.Call, frame: Frame) -> Value:
    """`super().method(...)`: the base's method if the program has it."""
    arguments = Arguments(ip, node, frame)
    assert isinstance(node.func, ast.Attribute)
    cls = frame.node
    while cls is not None and not isinstance(cls, ast.ClassDef):
        cls = ip.parents.get(cls)
    if isinstance(cls, ast.ClassDef) and frame.self_cell is not None:
        own = ip.heap[frame.self_cell].cls
        line = [] if own is None else ip.classes.lineage(own)  # what follows a mixin is up to the object's class
        for base in line[line.index(cls) + 1 :] if cls in line else ip.classes.lineage(cls)[1:]:
            method = ip.classes.method(base, node.func.attr) if isinstance(base, ast.ClassDef) else None
            if method is not None:
                return invoke(ip, FunctionRef(method, frame.self_cell), arguments, node, frame)
    if node.func.attr == "__init__" and frame.self_cell is not None:
        externals.initialise_base(ip, frame.self_cell, arguments, frame)
    return HOST


def dispatch(ip: Interpreter, node: ast.Call, callee: Value, arguments: Arguments, frame: Frame) -> Value:
    results: list[Value] = []
    for cell in callee.objs:
        if partial.is_partial(ip, cell):
            results.append(dispatch(ip, node, *partial.completed(ip, cell, arguments, node), frame))
    for ref in order.functions(ip, callee.defs):
        results.append(_program_function(ip, ref, arguments, node, frame))
    for cls in order.nodes(ip, callee.classes):
        results.append(instances.construct(ip, cls, arguments, node, frame))
    if results:
        return join_all(results)
    if callee.ref is not None and not callee.objs:
        return join_all(_external(ip, ref, arguments, node, frame) for ref in callee.ref.split("|"))
    if callee.objs and _callable_cells(ip, callee):
        return join_all(models.run(ip, cell, arguments, node, frame) for cell in callee.objs)
    if isinstance(node.func, ast.Attribute) and not _is_kept(ip, arguments.receiver, node.func.attr):
        return methods.call(ip, node, arguments, frame)
    return externals.unknown(ip, arguments, node, frame)


def _is_kept(ip: Interpreter, receiver: Value, name: str) -> bool:
    """Whether an attribute is something that an object was given, and no method."""
    return bool(receiver.objs) and all(name in ip.heap[cell].attrs for cell in receiver.objs)


def _external(ip: Interpreter, ref: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    if ref == "collections.namedtuple" and not arguments.unpacked:
        names = instances.names_in(arguments.get(1, "field_names"))
        return Value(ref=f"{NAMED}{','.join(names)}") if names else HOST
    if ref.startswith(NAMED):
        return instances.named(ref[len(NAMED) :].split(","), arguments)
    if ref == "collections.OrderedDict":
        return builtin.call(ip, "dict", arguments, node, frame)
    if ref.startswith("builtins."):
        return builtin.call(ip, ref[9:], arguments, node, frame)
    return externals.call(ip, ref, arguments, node, frame)


def _callable_cells(ip: Interpreter, value: Value) -> bool:
    return any(
        held.roles & {Role.MODEL, Role.CRITERION}
        or (held.cls is not None and ip.classes.method(held.cls, "__call__") is not None)
        for held in (ip.heap[cell] for cell in value.objs)
    )


def _program_function(ip: Interpreter, ref: FunctionRef, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """A function or bound method; a method that runs a prepared model is a forward."""
    ref = _of_first(ip, ref, arguments)
    if ref.bound is not None and Role.MODEL in ip.heap[ref.bound].roles:
        return models.run_method(ip, ref, arguments, node, frame)
    if ref.bound is not None and Role.OPTIMIZER in ip.heap[ref.bound].roles:
        methods.of_own_optimizer(ip, getattr(ref.node, "name", ""), node)
    return invoke(ip, ref, arguments, node, frame)


def _of_first(ip: Interpreter, ref: FunctionRef, arguments: Arguments) -> FunctionRef:
    """A method that is called as a function is bound to its first argument: `method(self, *args)` in a decorator."""
    if ref.bound is None and not ref.given and arguments.positional and isinstance(ip.parents[ref.node], ast.ClassDef):
        value = arguments.positional[0][1]
        cells = [cell for cell in value.objs if ip.heap[cell].cls is not None]
        if len(cells) == len(value.objs) == 1 and ip.parents[ref.node] in ip.classes.lineage(_class(ip, cells[0])):
            arguments.positional = arguments.positional[1:]
            return replace(ref, bound=cells[0])
    return ref


def _class(ip: Interpreter, cell: int) -> ast.ClassDef:
    cls = ip.heap[cell].cls
    assert cls is not None
    return cls


def invoke(
    ip: Interpreter, ref: FunctionRef, arguments: Arguments, node: ast.Call, frame: Frame, forward: bool | None = None
) -> Value:
    """Enter a function of the program with evaluated arguments."""
    given = binding.received(ip, ref, arguments, frame)
    closure = ip.closure(ref.node)
    result = divisors.translate(ip, enter(ip, ref, given, closure, node, frame, forward), ref, arguments, node)
    return _rehome(ip, result, ref.node, node, bool(frame.loops))


def _rehome(ip: Interpreter, value: Value, function: ast.AST, node: ast.Call, in_loop: bool) -> Value:
    """A hand-made batch that a function picks and returns was picked by the call, a new tensor made by it.

    What it flattened has lost the dimension to split: there the batch is what it picked, before that.
    """
    if value.items is not None:
        in_loop = in_loop and not any(_is_flattened(ip, v, function) for v in value.items)
        value = replace(value, items=tuple(_rehome(ip, v, function, node, in_loop) for v in value.items))
    if value.dep is not Dep.GLOBAL or (value.batch.whole and value.origin not in ip.made.filled):
        return value
    picked = in_loop and stands_in(ip.parents, value.origin, function) and value.batch.reason != pieces.SHAPED
    return replace(
        value,
        origin=node if picked else value.origin,
        made=node if stands_in(ip.parents, value.made, function) else value.made,
    )


def _is_flattened(ip: Interpreter, value: Value, function: ast.AST) -> bool:
    """Whether a function returns a batch that it picked without the dimension that is split."""
    ndim = value.batch.ndim
    gone = value.batch.reason == pieces.SHAPED or (ndim is not None and ndim <= (ip.split_dim or 0))
    return gone and stands_in(ip.parents, value.origin, function)


def enter(
    ip: Interpreter,
    ref: FunctionRef,
    given: Given,
    closure: Frame,
    node: ast.Call | None,
    caller: Frame | None = None,
    forward: bool | None = None,
) -> Value:
    """Interpret a function's body with these arguments (by position, `self` included, or by name)."""
    ip.called.add(ref.node)
    in_forward = forward if forward is not None else bool(caller and caller.forward)
    if in_forward:
        ip.ran_forwards.add(ref.node)
    loops = caller.loops if caller else ()
    where = node if ref.node in ip.made.making_defs else None
    key = (ref, where, tuple(sorted(((str(k), v) for k, v in given.items()), key=lambda i: i[0])), in_forward, loops)
    if key in ip.memo:
        return ip.memo[key]
    if (ref.node in ip.running and _recursions(ref, caller) > 1) or (caller and caller.depth > MAX_DEPTH):
        return EMPTY
    ip.memo[key] = EMPTY
    outer = Frame(env=dict(ref.free), outer=closure) if ref.free else closure
    frame = Frame(env={}, node=ref.node, outer=outer, caller=caller, call=node, forward=in_forward, loops=loops)
    frame.self_cell, frame.free = ref.bound, ref.free
    binding.bind(ip, ref, given, frame)
    fresh = ref.node not in ip.running
    ip.running.add(ref.node)
    if isinstance(ref.node, ast.Lambda):
        frame.statement = caller.statement if caller else None
        frame.returned = expressions.evaluate(ip, ref.node.body, frame)
    else:
        statements.block(ip, ref.node.body, frame)
    if fresh:
        ip.running.discard(ref.node)
    result = frame.returned
    if frame.yielded is not None:
        result = Value(element=frame.yielded, stream=True)
    if result.arg is not None and not result.is_param:
        result = replace(result, arg=None)
    ip.memo[key] = result
    return result


def _recursions(ref: FunctionRef, frame: Frame | None) -> int:
    chain = frame.chain() if frame is not None else ()
    return sum(current.node is ref.node and current.free == ref.free for current in chain)


__all__ = ["Arguments", "call", "enter", "invoke"]
