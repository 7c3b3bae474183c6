"""Calls of Python's built-in functions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import (
    ahead,
    collating,
    deciding,
    dims,
    expressions,
    loops,
    operators,
    order,
    pieces,
    reflection,
    row_loops,
    sinks,
)
from .replacing import replace
from .values import (
    COUNTED,
    EMPTY,
    EXACT_ROWS,
    GLOBAL,
    HOST,
    NOTHING,
    REDUCED,
    ROWS,
    Batch,
    Dep,
    Role,
    Value,
    join,
    join_all,
    union,
)

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

Handler = Callable[..., Value]


def call(ip: Interpreter, name: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """Value of a call of a built-in."""
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(ip, arguments, node, frame)
    return _of_all(ip, arguments, frame)


def _of_all(ip: Interpreter, arguments: Arguments, frame: Frame) -> Value:
    """What is computed of arguments that are made global first."""
    for operand, value in arguments.all:
        sinks.as_global(ip, operand, value, frame)
    return Value(batch=GLOBAL, params=union(v.params for _, v in arguments.all))


# A tensor has as many rows as samples are in the slice, a tuple or object any number.
_UNTOLD = "len() of a batch whose structure is not known; of a tensor, x.size(0) tells the number of its rows"


def _len(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    value = arguments.get(0, "obj")
    entries = row_loops.counted(ip, value, frame)
    if entries is not None:
        return entries
    if value.rows and not value.is_sample:
        return Value(batch=EXACT_ROWS if ip.sites.quiet else COUNTED)
    if value.is_sample and not value.opaque and value.items is None and value.batch.dim == 0:
        exact = not (value.batch.ragged or value.batch.reason)
        return Value(batch=EXACT_ROWS if exact else ROWS, sources=value.sources, built=frozenset({node}))
    if pieces.is_batch(value):
        return Value(batch=COUNTED, measured=True)
    if value.is_sample and value.opaque and value.items is None and not frame.forward:
        return Value(batch=Batch(Dep.UNKNOWN, reason=_UNTOLD))
    return replace(HOST, measured=value.dep is Dep.GLOBAL and not value.objs)


def _enumerate(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    rows = bool(arguments.positional) and collating.picked(ip, arguments.positional[0][1], frame)
    index = HOST
    if len(arguments.all) == 1 and row_loops.collected(ip, node.args[0], frame):
        index = Value(batch=Batch(Dep.SAMPLE, reason=row_loops.POSITION))
    return Value(element=Value(items=(index, _element(ip, arguments, 0, frame))), rows=rows)


def _zip(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    if len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
        value = ip.current.get(node.args[0].value, EMPTY)
        whole = collating.transposed(value)
        if whole is not None:
            return whole
        if loops.holds_loader(ip, value):
            message = "How many loaders are read together here can't be told."
            ip.sites.report("DST102", node, message, "name them: zip(first, second)")
    parts = tuple(_element(ip, arguments, i, frame) for i in range(len(arguments.positional)))
    rows = any(collating.picked(ip, v, frame) for _, v in arguments.positional)
    return Value(element=Value(items=parts), params=union(v.params for _, v in arguments.all), rows=rows)


def _element(ip: Interpreter, arguments: Arguments, index: int, frame: Frame) -> Value:
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
    value = arguments.positional[0][1]
    if value.shape_dim is not None or (value.rows and sinks.is_runtime_argument(ip, node)):
        return value
    if (
        value.items is not None
        and node.func.__class__ is ast.Name
        and getattr(node.func, "id", "") in ("list", "tuple")
    ):
        return replace(value, objs=frozenset())
    fetching, frame.fetching = frame.fetching, node
    element = _element(ip, arguments, 0, frame)
    frame.fetching = fetching
    if collating.picked(ip, value, frame) and getattr(node.func, "id", "") not in ("set", "frozenset"):
        return collating.listed(replace(value, items=None, objs=frozenset()), element)
    if getattr(node.func, "id", "") not in ("list", "tuple") and row_loops.collected(ip, node, frame):
        element = row_loops.UNBOUND  # `sorted`, `reversed`, `set`: in another order
    cell = ip.allocate(node, frame)
    ip.heap.add(cell, element)
    row_loops.listed(ip, cell, node, frame)
    # A list that has a name may be changed.
    fixed = getattr(node.func, "id", "") == "tuple" or isinstance(ip.parents.get(node), (ast.Call, ast.keyword))
    span = value.const if fixed and isinstance(value.const, (range, dims.Past)) else NOTHING
    return Value(objs=frozenset({cell}), element=element, params=value.params, const=span)


def _next(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    value = loops.element(ip, arguments.get(0, "iterator"), frame)
    ahead.fetched(ip, value)
    default = arguments.get(1, "default")
    return join(value, default)


def _sum(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """The sum of the elements: per-sample tensors stay per sample, a tensor's rows are added up."""
    if not arguments.positional:
        return HOST
    value = arguments.positional[0][1]
    if value.is_sample and value.items is None and value.element is None:
        return sinks.reduce_here(ip, node, value, frame, "sum")
    element = loops.element(ip, value, frame)
    if row_loops.collected(ip, node.args[0], frame) and row_loops.is_of_row(element):
        return row_loops.reduced("sum", element)
    if value.rows and element.dep <= Dep.GLOBAL:
        return Value(batch=REDUCED, params=value.params | element.params)
    if element.dep is Dep.BOTTOM:
        return Value(batch=GLOBAL, params=value.params)
    return replace(element, items=None, element=None, params=element.params | value.params, is_param=False, arg=None)


def _extreme(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """max, min of host numbers or of elements."""
    values = [v for _, v in arguments.positional]
    if any(row_loops.collected(ip, operand, frame) for operand in node.args) and isinstance(node.func, ast.Name):
        return row_loops.reduced(node.func.id, values[0] if values else EMPTY)
    if len(values) == 1 and values[0].rows and not values[0].is_sample:
        return Value(batch=REDUCED)
    if len(values) == 1:
        return replace(_element(ip, arguments, 0, frame), items=None)
    for operand, value in arguments.positional:
        sinks.as_global(ip, operand, value, frame)
    return join_all(v if v.dep is not Dep.ROWS else HOST for v in values)


def _number(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """float, int, bool: a tensor becomes a host number."""
    if not arguments.positional:
        return HOST
    operand, value = arguments.positional[0]
    if value.is_param:
        value = sinks.as_global(ip, operand, value, frame)
    if value.is_sample and not frame.forward:
        return sinks.gather(ip, operand, value, frame)
    if value.is_sample:
        return row_loops.single(ip, value, frame)
    if _is_fraction(value, frame):
        return _counted(ip, operand, value, frame)
    return value if value.dep > Dep.BOTTOM else HOST


def _is_fraction(value: Value, frame: Frame) -> bool:
    """Whether a number that is linear in this rank's rows is no count: rounded, it is not linear any more."""
    return value.dep is Dep.ROWS and not value.batch.exact and not frame.forward


def _counted(ip: Interpreter, operand: ast.expr, value: Value, frame: Frame) -> Value:
    """A number of this rank's rows, made global before it is rounded."""
    sinks.count(ip, operand, frame)
    return Value(batch=REDUCED)


def _elementwise(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """abs, round, pow."""
    value = arguments.get(0, "x")
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if arguments.positional and name != "abs" and (name == "pow" or _is_fraction(value, frame)):
        for operand, held in arguments.positional:
            if held.dep is Dep.ROWS and not frame.forward:
                return _counted(ip, operand, held, frame)
    if value.dep in (Dep.ROWS, Dep.PENDING):
        return value
    return operators.elementwise(ip, arguments.positional, node, frame)


def _range(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    rows = [v for _, v in arguments.positional if v.dep is Dep.ROWS]
    if len(arguments.positional) == 1 and rows and rows[0].batch.exact:
        # Over this rank's rows: local as an index, whole where a loop goes over it.
        reason = row_loops.POSITION if frame.forward and not ip.sites.quiet else ""
        batch = Batch(Dep.SAMPLE, dim=0, ndim=1, reason=reason)
        return Value(batch=batch, sources=rows[0].sources, built=frozenset({node}))
    for operand, value in arguments.all:
        sinks.as_global(ip, operand, value, frame)
        deciding.measured(ip, operand, value, frame)
    span = None if rows else dims.span([v for _, v in arguments.positional])
    return Value(element=Value(batch=GLOBAL), const=NOTHING if span is None else span)


def _map(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    from . import calls

    function = arguments.get(0, "func")
    given = {i: _element(ip, arguments, i + 1, frame) for i in range(len(arguments.positional) - 1)}
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


def _any(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """any, all."""
    found = _of_all(ip, arguments, frame)
    return row_loops.UNBOUND if any(row_loops.collected(ip, part, frame) for part in node.args) else found


def _plain(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    return HOST


_HANDLERS: dict[str, Handler] = {
    "len": _len,
    "enumerate": _enumerate,
    "zip": _zip,
    "iter": _same,
    "next": _next,
    "list": _sequence,
    "tuple": _sequence,
    "set": _sequence,
    "sorted": _sequence,
    "reversed": _sequence,
    "sum": _sum,
    "max": _extreme,
    "min": _extreme,
    "any": _any,
    "all": _any,
    "float": _number,
    "int": _number,
    "bool": _number,
    "abs": _elementwise,
    "round": _elementwise,
    "pow": _elementwise,
    "range": _range,
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

__all__ = ["Role", "call"]
