"""Calls of Python's built-in functions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import (
    ahead,
    collating,
    counting,
    dims,
    expressions,
    loops,
    numbered,
    order,
    reflection,
    row_loops,
    sinks,
)
from .joins import join, join_all
from .replacing import replace
from .values import EMPTY, GLOBAL, HOST, NOTHING, Batch, Dep, Value, union

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

Handler = Callable[..., Value]


def call(ip: Interpreter, name: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """Value of a call of a built-in."""
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(ip, arguments, node, frame)
    return of_all(ip, arguments, frame)


def of_all(ip: Interpreter, arguments: Arguments, frame: Frame) -> Value:
    """What is computed of arguments that are made global first."""
    for operand, value in arguments.all:
        sinks.as_global(ip, operand, value, frame)
    return Value(batch=GLOBAL, params=union(v.params for _, v in arguments.all))


def _enumerate(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    rows = bool(arguments.positional) and collating.picked(ip, arguments.positional[0][1], frame)
    index = HOST
    if len(arguments.all) == 1 and row_loops.collected(ip, node.args[0], frame):
        index = numbered.numbered(ip, Value(batch=Batch(Dep.SAMPLE, reason=row_loops.POSITION)), node, frame)
    return Value(element=Value(items=(index, element_of(ip, arguments, 0, frame))), rows=rows)


def _zip(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    if len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
        value = ip.current.get(node.args[0].value, EMPTY)
        whole = collating.transposed(value)
        if whole is not None:
            return whole
        if loops.holds_loader(ip, value):
            message = "How many loaders are read together here can't be told."
            ip.sites.report("DST102", node, message, "name them: zip(first, second)")
    parts = tuple(element_of(ip, arguments, i, frame) for i in range(len(arguments.positional)))
    rows = any(collating.picked(ip, v, frame) for _, v in arguments.positional)
    return Value(element=Value(items=parts), params=union(v.params for _, v in arguments.all), rows=rows)


def element_of(ip: Interpreter, arguments: Arguments, index: int, frame: Frame) -> Value:
    """Element of an argument that is iterated; per-sample tensors are iterated whole."""
    if index >= len(arguments.positional):
        return EMPTY
    operand, value = arguments.positional[index]
    if expressions._rows_first(value) and not frame.forward:
        value = sinks.gather(ip, operand, value, frame)
    return loops.element(ip, value, frame)


def _same(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    return arguments.get(0, "iterable")


def _sequence(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """list, tuple, sorted, set, reversed."""
    if not arguments.positional:
        return Value(objs=frozenset({ip.allocate(node, frame)}))
    value, name = arguments.positional[0][1], getattr(node.func, "id", "")
    if value.shape_dim is not None or (value.rows and sinks.is_runtime_argument(ip, node)):
        return value
    if value.items is not None and name in ("list", "tuple"):
        return replace(value, objs=frozenset())
    fetching, frame.fetching = frame.fetching, node
    element = element_of(ip, arguments, 0, frame)
    frame.fetching = fetching
    if collating.picked(ip, value, frame) and name not in ("set", "frozenset"):
        return collating.listed(replace(value, items=None, objs=frozenset()), element)
    if name not in ("list", "tuple") and row_loops.collected(ip, node.args[0], frame):
        element = row_loops.UNBOUND  # `sorted`, `reversed`, `set`: in another order
    cell = ip.allocate(node, frame)
    ip.heap.add(cell, element)
    row_loops.listed(ip, cell, node, frame)
    # A list that has a name may be changed.
    fixed = name == "tuple" or isinstance(ip.parents.get(node), (ast.Call, ast.keyword))
    span = value.const if fixed and isinstance(value.const, (range, dims.Past)) else NOTHING
    return Value(objs=frozenset({cell}), element=element, params=value.params, const=span)


def _next(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    value = loops.element(ip, arguments.get(0, "iterator"), frame)
    ahead.fetched(ip, value)
    default = arguments.get(1, "default")
    return join(value, default)


def _map(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    from . import calls

    function = arguments.get(0, "func")
    given = {i: element_of(ip, arguments, i + 1, frame) for i in range(len(arguments.positional) - 1)}
    results = [
        calls.enter(ip, ref, {k + ref.shift: v for k, v in given.items()}, ip.closure(ref.node), None, frame)
        for ref in order.functions(ip, function.defs)
    ]
    taint = union(v.params for _, v in arguments.all)
    rows = any(collating.picked(ip, v, frame) for _, v in arguments.positional[1:])
    return Value(element=join_all(results) if results else join_all(given.values()), params=taint, rows=rows)


def _filter(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    value = arguments.get(1, "iterable")
    return Value(element=loops.element(ip, value, frame), params=value.params)


def _dict(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    cell = ip.allocate(node, frame)
    for name, (_, value) in arguments.keywords.items():
        ip.heap.store(cell, name, value)
        ip.heap.add(cell, value)
    for _, value in arguments.positional:
        pairs = value.items or ((value.element,) if value.element is not None else ())
        for pair in pairs:
            key, held = pair.items if pair.items is not None and len(pair.items) == 2 else (EMPTY, value)
            if isinstance(key.const, str):  # `OrderedDict([("conv", conv), ("norm", norm)])`
                ip.heap.store(cell, key.const, held)
            ip.heap.add(cell, held)
        if not pairs:
            ip.heap.add(cell, value)
    return Value(objs=frozenset({cell}), params=union(v.params for _, v in arguments.all))


def _plain(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    return HOST


_HANDLERS: dict[str, Handler] = {
    "len": counting.length,
    "enumerate": _enumerate,
    "zip": _zip,
    "iter": _same,
    "next": _next,
    "list": _sequence,
    "tuple": _sequence,
    "set": _sequence,
    "sorted": _sequence,
    "reversed": _sequence,
    "sum": counting.total,
    "max": counting.extreme,
    "min": counting.extreme,
    "any": counting.any_or_all,
    "all": counting.any_or_all,
    "float": counting.number,
    "int": counting.number,
    "bool": counting.number,
    "abs": counting.elementwise,
    "round": counting.elementwise,
    "pow": counting.elementwise,
    "range": counting.span,
    "getattr": reflection.getattr_of,
    "globals": reflection.globals_of,
    "setattr": reflection.setattr_of,
    "map": _map,
    "filter": _filter,
    "dict": _dict,
    "isinstance": _plain,
    "hasattr": _plain,
    "type": _plain,
    "id": _plain,
    "vars": reflection.vars_of,
    "locals": reflection.locals_of,
    "super": _plain,
    "callable": _plain,
}
