"""Calls of Python's built-in functions that give a number: of host numbers, or of the rows of a slice."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import builtin, combining, deciding, dims, loops, numbered, overloaded, pieces, row_loops, sinks
from .joins import join_all
from .replacing import replace
from .values import COUNTED, EMPTY, EXACT_ROWS, GLOBAL, HOST, NOTHING, REDUCED, ROWS, Batch, Dep, Value

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter


# A tensor has as many rows as samples are in the slice, a tuple or object any number.
_UNTOLD = "len() of a batch whose structure is not known; of a tensor, x.size(0) tells the number of its rows"


def length(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
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


def total(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
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
    added = overloaded.added_up(ip, element, arguments.get(1, "start"), frame) if element.objs else None
    if added is not None:
        return added
    if element.dep is Dep.BOTTOM:
        return Value(batch=GLOBAL, params=value.params)
    return replace(element, items=None, element=None, params=element.params | value.params, is_param=False, arg=None)


def extreme(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """max, min of host numbers or of elements."""
    values = [v for _, v in arguments.positional]
    if any(row_loops.collected(ip, operand, frame) for operand in node.args) and isinstance(node.func, ast.Name):
        return row_loops.reduced(node.func.id, values[0] if values else EMPTY)
    if len(values) == 1 and values[0].rows and not values[0].is_sample:
        return Value(batch=REDUCED)
    if len(values) == 1:
        return replace(builtin.element_of(ip, arguments, 0, frame), items=None)
    for operand, value in arguments.positional:
        sinks.as_global(ip, operand, value, frame)
    return join_all(v if v.dep is not Dep.ROWS else HOST for v in values)


def number(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
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


def elementwise(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """abs, round, pow."""
    value = arguments.get(0, "x")
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if arguments.positional and name != "abs" and (name == "pow" or _is_fraction(value, frame)):
        for operand, held in arguments.positional:
            if held.dep is Dep.ROWS and not frame.forward:
                return _counted(ip, operand, held, frame)
    if value.dep in (Dep.ROWS, Dep.PENDING):
        return value
    return combining.elementwise(ip, arguments.positional, node, frame)


def span(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    rows = [v for _, v in arguments.positional if v.dep is Dep.ROWS]
    if len(arguments.positional) == 1 and rows and rows[0].batch.exact:
        # Over this rank's rows: local as an index, whole where a loop goes over it.
        reason = row_loops.POSITION if frame.forward and not ip.sites.quiet else ""
        batch = Batch(Dep.SAMPLE, dim=0, ndim=1, reason=reason)
        value = Value(batch=batch, sources=rows[0].sources, built=frozenset({node}))
        return numbered.numbered(ip, value, node, frame)
    for operand, value in arguments.all:
        sinks.as_global(ip, operand, value, frame)
        deciding.measured(ip, operand, value, frame)
    span = None if rows else dims.span([v for _, v in arguments.positional])
    return Value(element=Value(batch=GLOBAL), const=NOTHING if span is None else span)


def any_or_all(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """any, all."""
    found = builtin.of_all(ip, arguments, frame)
    return row_loops.UNBOUND if any(row_loops.collected(ip, part, frame) for part in node.args) else found
