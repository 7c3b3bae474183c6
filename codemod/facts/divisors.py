"""A divisor that a function knows in its own names, said in the names of its caller."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .losses import is_pure
from .replacing import replace
from .values import Batch, Dep, FunctionRef, Value

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Interpreter

HIDDEN = "its divisor is computed inside the function that returns it"


def translate(ip: Interpreter, value: Value, ref: FunctionRef, arguments: Arguments, node: ast.Call) -> Value:
    """What a function returns, seen by its caller: the divisors of reduced values in terms of the call's arguments."""
    if value.items is not None:
        return replace(value, items=tuple(translate(ip, v, ref, arguments, node) for v in value.items))
    if value.dep is not Dep.PENDING or value.batch.by is None:
        return value
    text = _renamed(ip, value.batch.by, ref, arguments, node)
    if text is None:
        return replace(value, batch=Batch(Dep.UNKNOWN, reason=HIDDEN))
    return replace(value, batch=replace(value.batch, by=text))


def _renamed(ip: Interpreter, by: str, ref: FunctionRef, arguments: Arguments, node: ast.Call) -> str | None:
    """The divisor's text with parameters replaced by arguments, `None` if a local name is in it."""
    assigned = {
        part.id for part in ast.walk(ref.node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
    given = _given(ip, ref, arguments, node)
    tree = ast.parse(by, mode="eval")
    for part in ast.walk(tree):
        if isinstance(part, ast.Name) and (part.id in assigned or given.get(part.id, "") is None):
            return None

    class Rename(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.AST:
            text = given.get(name.id)
            return name if text is None else ast.parse(text, mode="eval").body

    return ast.unparse(Rename().visit(tree))


def _given(ip: Interpreter, ref: FunctionRef, arguments: Arguments, node: ast.Call) -> dict[str, str | None]:
    """Source text of the argument of each parameter, `None` where it can't be written again."""
    args = ref.node.args
    names = [a.arg for a in [*args.posonlyargs, *args.args]]
    given: dict[str, str | None] = dict.fromkeys([*names, *[a.arg for a in args.kwonlyargs]])
    if ref.bound is not None and names:
        holder = node.func
        if isinstance(holder, ast.Attribute) and getattr(ref.node, "name", "") == holder.attr:
            holder = holder.value
        given[names.pop(0)] = ip.text(holder)
    ahead = sum(isinstance(key, int) for key, _ in ref.given)  # given by `partial`, somewhere else
    for name, (expression, _) in zip(names[ahead:], arguments.positional):
        given[name] = ip.text(expression) if is_pure(expression) else None
    for name, (expression, _) in arguments.keywords.items():
        if name in given:
            given[name] = ip.text(expression) if is_pure(expression) else None
    return given
