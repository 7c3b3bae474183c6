"""Sets of functions and classes in the order of the program's text: that of a set is that of addresses in memory.

What is interpreted first is met first, gets its number first and wins where one of several has to be chosen, so a
conversion would otherwise differ from one run of distify to the next.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from .values import FunctionRef, Value

if TYPE_CHECKING:
    from .interpreter import Interpreter

Node = TypeVar("Node", bound=ast.AST)
Key = tuple[int, int, tuple[object, ...]]


def callables(ip: Interpreter, value: Value) -> frozenset[FunctionRef]:
    """The functions that a callable value may be: functions, bound methods, instances with `__call__`."""
    found = value.defs
    for cell in value.objs:
        cls = ip.heap[cell].cls
        method = ip.classes.method(cls, "__call__") if cls is not None else None
        if method is not None:
            found |= {FunctionRef(method, cell)}
    return found


def functions(ip: Interpreter, refs: Iterable[FunctionRef]) -> list[FunctionRef]:
    """Functions as their texts stand in the program; of one text, as the objects that they are bound to were made."""
    return sorted(refs, key=lambda ref: _key(ip, ref))


def nodes(ip: Interpreter, found: Iterable[Node]) -> list[Node]:
    """Nodes as they stand in the program."""
    return sorted(found, key=ip.names.place)


def _key(ip: Interpreter, ref: FunctionRef) -> Key:
    held = [(str(name), _mark(ip, value)) for name, value in (*ref.given, *ref.free)]
    return ip.names.place(ref.node), -1 if ref.bound is None else ref.bound, tuple(held)


def _mark(ip: Interpreter, value: Value) -> tuple[object, ...]:
    """What tells apart the values that `partial` or a decorator gave to one function."""
    return (sorted(value.objs), [_key(ip, ref) for ref in functions(ip, value.defs)], repr(value.const))
