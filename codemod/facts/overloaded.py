"""Operators that classes of the program define: `stats += of_batch`, `a < b`, `len(meter)` run their methods."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .joins import join_all
from .values import EMPTY, FunctionRef, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .interpreter import Frame, Interpreter

DEPTH = 12
NAMES: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
COMPARED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("lt", "gt"), ast.LtE: ("le", "ge"), ast.Gt: ("gt", "lt"), ast.GtE: ("ge", "le"), ast.Eq: ("eq", "eq"),
    ast.NotEq: ("ne", "ne"),
}  # fmt: skip


def combined(
    ip: Interpreter, op: ast.operator, left: Value, right: Value, frame: Frame, in_place: bool = False
) -> Value | None:
    """What `left op right` gives where a method of the program's own computes it, else `None`."""
    if not (left.objs or right.objs):
        return None
    name = NAMES[type(op)]
    found = run(ip, left, f"__i{name}__", [right], frame) if in_place else None
    found = found if found is not None else run(ip, left, f"__{name}__", [right], frame)
    return found if found is not None else run(ip, right, f"__r{name}__", [left], frame)


def compared(ip: Interpreter, op: ast.cmpop, left: Value, right: Value, frame: Frame) -> Value | None:
    """What a comparison gives where a method of the program's own makes it, else `None`."""
    names = COMPARED.get(type(op))
    if names is None or not (left.objs or right.objs):
        return None
    found = run(ip, left, f"__{names[0]}__", [right], frame)
    return found if found is not None else run(ip, right, f"__{names[1]}__", [left], frame)


def run(ip: Interpreter, value: Value, name: str, given: Sequence[Value], frame: Frame) -> Value | None:
    """What a method by this name gives of objects of the program's classes, `None` if none has one."""
    from . import calls

    found: list[Value] = []
    for cell in sorted(value.objs) if frame.depth < DEPTH else ():
        cls = ip.heap[cell].cls
        method = ip.classes.method(cls, name) if cls is not None else None
        if method is not None:
            arguments: dict[int | str, Value] = dict(enumerate(given, 1))
            found.append(calls.enter(ip, FunctionRef(method, cell), arguments, ip.closure(method), None, frame))
    return join_all(found) if found else None


def added_up(ip: Interpreter, element: Value, start: Value, frame: Frame) -> Value | None:
    """What `sum(objects)` gives, `None` if they don't define how they are added."""
    first = combined(ip, ast.Add(), start if start != EMPTY else element, element, frame)
    return None if first is None else combined(ip, ast.Add(), first, element, frame) or first


def assigned(ip: Interpreter, cell: int, name: str, value: Value, frame: Frame) -> bool:
    """Whether an assignment to an attribute runs a method of the program's own, which is done: a property's setter."""
    from . import calls

    cls = ip.heap[cell].cls
    setter = ip.classes.setter(cls, name) if cls is not None and frame.depth < DEPTH else None
    if setter is not None:
        calls.enter(ip, FunctionRef(setter, cell), {1: value}, ip.closure(setter), None, frame)
    return setter is not None
