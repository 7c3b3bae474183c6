"""Calls that the text does not show as calls: of decorators, of default factories, of what a `with` enters."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import calls, order
from .arguments import Arguments
from .frame import Frame
from .joins import join_all
from .places import stands_in
from .replacing import replace
from .values import EMPTY, FunctionRef, Value

if TYPE_CHECKING:
    from .interpreter import Interpreter


def decorate(ip: Interpreter, decorator: Value, made: Value, frame: Frame) -> Value:
    """What a decorator makes of a function or class: a wrapper around it; or the same, kept somewhere (a registry)."""
    results = []
    for ref in order.functions(ip, decorator.defs):
        result = calls.enter(ip, ref, {ref.shift: made}, ip.closure(ref.node), None, frame)
        names = [item.arg for item in [*ref.node.args.posonlyargs, *ref.node.args.args]][ref.shift :]
        free = tuple((name, made) for name in names[:1])
        wrappers = (replace(w, free=free) if stands_in(ip.parents, w.node, ref.node) else w for w in result.defs)
        results.append(replace(result, defs=frozenset(wrappers)))
    wrapped = join_all(results) if results else EMPTY
    return wrapped if wrapped.defs or wrapped.classes else made


def made_by_factory(ip: Interpreter, factory: Value, node: ast.Call, cell: int, frame: Frame) -> Value:
    """What a function without arguments makes for a field of an object."""
    inner = Frame(env={}, outer=frame.root, caller=frame, loops=frame.loops, statement=frame.statement)
    inner.self_cell = cell
    return calls.dispatch(ip, node, factory, Arguments(ip, ast.Call(node.func, [], []), inner), inner)


def entered(ip: Interpreter, value: Value, frame: Frame) -> Value:
    """What `with value as target:` binds: what a generator yields, what `__enter__` returns, else the value itself."""
    if value.stream and value.element is not None:
        return value.element
    found = []
    for cell in value.objs:
        cls = ip.heap[cell].cls
        method = ip.classes.method(cls, "__enter__") if cls is not None else None
        if method is not None:
            found.append(calls.enter(ip, FunctionRef(method, cell), {}, ip.closure(method), None, frame))
    return join_all(found) if found else value
