"""Abstract interpretation: expressions."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import (
    attributes,
    bends,
    calls,
    collating,
    combining,
    comprehensions,
    deciding,
    edited,
    following,
    loops,
    narrowing,
    numbered,
    operators,
    order,
    pieces,
    sinks,
    subscripts,
)
from .joins import join, join_all
from .local import deep_sources, has_sample
from .replacing import replace
from .values import EMPTY, GLOBAL, HOST, Batch, Dep, FunctionRef, Value, union

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter


def evaluate(ip: Interpreter, node: ast.expr, frame: Frame) -> Value:
    """Value of an expression, recorded; places already known to need an edit count as edited."""
    handler = _HANDLERS.get(type(node))
    value = handler(ip, node, frame) if handler else _children(ip, node, frame)
    if frame.loops and pieces.has(value) and not (frame.forward or pieces.is_made(node)):
        value = pieces.picked(value, node, frame)
    if node in ip.sites.reductions or node in ip.sites.splits:
        edited.note_other(ip, node, value, frame)
    value = bends.followed(ip, node, edited.as_edited(ip, node, value), frame)
    if ip.program.by_hand:
        value = following.followed(ip, node, value, frame)
    elif frame.forward and ip.made.numbered:
        value = numbered.followed(ip, node, value)
    if value.also:
        # In another branch it is a batch made by hand, and here it has this rank's rows.
        for picked in order.nodes(ip, value.also):
            made = ip.current.get(picked, EMPTY).batch
            combining.split(ip, picked, made.dim if made.whole else None)
        value = replace(value, also=frozenset())
    ip.sites.record(node, value)
    ip.current[node] = value
    return value


def iterate(ip: Interpreter, node: ast.expr, frame: Frame) -> Value:
    """Value of one element of the iteration over an expression.

    Python loops over the rows of a batch run over the whole batch: what is iterated is gathered first.
    """
    value = evaluate(ip, node, frame)
    if _rows_first(value) and not frame.forward:
        value = sinks.gather(ip, node, value, frame)
    if value.dep is Dep.ROWS:
        value = sinks.as_global(ip, node, value, frame)
    return loops.element(ip, value, frame)


def _rows_first(value: Value) -> bool:
    """Whether iterating goes over the samples of a tensor."""
    plain = value.items is None and value.element is None and not value.opaque
    return value.is_sample and plain and not value.batch.dim


def _children(ip: Interpreter, node: ast.AST, frame: Frame) -> Value:
    """An expression without meaning of its own: its parts are evaluated, the result is a host value."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            evaluate(ip, child, frame)
    return HOST


def _constant(ip: Interpreter, node: ast.Constant, frame: Frame) -> Value:
    numeric = isinstance(node.value, (int, float, complex, bool))
    return Value(batch=GLOBAL if numeric else Batch(), const=node.value)


def _name(ip: Interpreter, node: ast.Name, frame: Frame) -> Value:
    value = ip.lookup(node.id, frame)
    if value is None:
        qualified = ip.names.qualified(node)
        if qualified == f"builtins.{node.id}" and not hasattr(builtins, node.id):
            # What a star import of another module binds.
            qualified = f"*.{node.id}" if ip.names.stars(ip.names.module(node).tree) else None
        return Value(ref=qualified) if qualified else EMPTY
    if value.dep is Dep.PENDING and not frame.forward and not sinks.is_runtime_argument(ip, node):
        return sinks.arrive(ip, node, value, frame)
    return collating.of_cells(ip, value) if value.objs else value


def _lambda(ip: Interpreter, node: ast.Lambda, frame: Frame) -> Value:
    ip.closures[node] = frame
    return Value(defs=frozenset({FunctionRef(node)}))


def _tuple(ip: Interpreter, node: ast.Tuple | ast.List, frame: Frame) -> Value:
    values = [evaluate(ip, item, frame) for item in node.elts]
    starred = any(isinstance(item, ast.Starred) for item in node.elts)
    taint = union(v.params for v in values)
    if isinstance(node, ast.Tuple) and not starred:
        return Value(items=tuple(values), params=taint)
    cell = ip.allocate(node, frame)
    for value in values:
        ip.heap.add(cell, value)
    if starred and isinstance(node.elts[0], ast.Starred) and (shape := ip.current[node.elts[0].value]).batch.exact:
        return Value(batch=shape.batch, shape_dim=-1, measured=True)  # `(*x.shape, n)`
    if starred or (isinstance(node, ast.List) and not values):
        return Value(objs=frozenset({cell}), params=taint)
    return Value(objs=frozenset({cell}), items=tuple(values), params=taint)


def _starred(ip: Interpreter, node: ast.Starred, frame: Frame) -> Value:
    value = evaluate(ip, node.value, frame)
    return replace(loops.element(ip, value, frame), params=value.params)


def _set(ip: Interpreter, node: ast.Set, frame: Frame) -> Value:
    values = [evaluate(ip, item, frame) for item in node.elts]
    return Value(element=join_all(values), params=union(v.params for v in values))


def _dict(ip: Interpreter, node: ast.Dict, frame: Frame) -> Value:
    cell = ip.allocate(node, frame)
    taint: frozenset[int] = frozenset()
    for key, item in zip(node.keys, node.values):
        value = evaluate(ip, item, frame)
        if value.dep is Dep.ROWS:
            value = sinks.as_global(ip, item, value, frame)
        taint |= value.params
        name = evaluate(ip, key, frame).const if key is not None else None
        if isinstance(name, str):
            ip.heap.store(cell, name, value)
        elif key is None:
            for source in value.objs:
                for attr, held in ip.heap[source].attrs.items():
                    ip.heap.store(cell, attr, held)
        ip.heap.add(cell, value)
    return Value(objs=frozenset({cell}), params=taint)


def decide(ip: Interpreter, node: ast.expr, frame: Frame) -> None:
    """Evaluate a condition: what it tests is the same on every rank, so that all take the same branch."""
    if isinstance(node, ast.BoolOp):
        for part in node.values:
            decide(ip, part, frame)
        ip.sites.record(node, HOST)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        decide(ip, node.operand, frame)
        ip.sites.record(node, HOST)
    else:
        value = evaluate(ip, node, frame)
        if not _lists_batches(ip, value):
            sinks.as_global(ip, node, value, frame)
        deciding.taken(ip, node, frame)


def _lists_batches(ip: Interpreter, value: Value) -> bool:
    """Whether a value is a list of batches, of which there are as many on each rank, whatever their rows."""
    cells = [ip.heap[cell] for cell in value.objs]
    if value.dep is not Dep.BOTTOM or value.items is not None or value.rows or any(cell.of_slice for cell in cells):
        return False
    plain = all(cell.cls is None and cell.ref is None and not (cell.roles or cell.rows) for cell in cells)
    held = [cell.element for cell in cells] + ([value.element] if value.element is not None else [])
    return plain and bool(held) and all(_is_batch(item) for item in held)


def _is_batch(value: Value) -> bool:
    """Whether a value has rows along a dimension of its own, or holds what has: no single row."""
    if value.items is not None:
        return any(map(_is_batch, value.items))
    return value.is_sample and value.batch.dim is not None


def _ifexp(ip: Interpreter, node: ast.IfExp, frame: Frame) -> Value:
    decide(ip, node.test, frame)
    test = narrowing.tested(ip, node.test)
    held = frame.env.get(test.name) if test is not None else None
    found = EMPTY
    for part, holds in ((node.body, True), (node.orelse, False)):
        if test is not None and held is not None:
            narrowed = test.narrow(held, holds)
            if narrowed is None:
                continue
            frame.env[test.name] = narrowed
        found = join(found, evaluate(ip, part, frame))
    if test is not None and held is not None:
        frame.env[test.name] = held
    return found


def _boolop(ip: Interpreter, node: ast.BoolOp, frame: Frame) -> Value:
    return join_all(evaluate(ip, item, frame) for item in node.values)


def _namedexpr(ip: Interpreter, node: ast.NamedExpr, frame: Frame) -> Value:
    value = evaluate(ip, node.value, frame)
    ip.bind(node.target.id, value, frame)
    return value


def _joinedstr(ip: Interpreter, node: ast.JoinedStr, frame: Frame) -> Value:
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = evaluate(ip, part.value, frame)
            sinks.as_global(ip, part.value, value, frame)
            if part.format_spec is not None:
                evaluate(ip, part.format_spec, frame)
    return HOST


def _yield(ip: Interpreter, node: ast.Yield, frame: Frame) -> Value:
    value = evaluate(ip, node.value, frame) if node.value is not None else EMPTY
    frame.yielded = join(frame.yielded or EMPTY, value)
    return HOST


def _yieldfrom(ip: Interpreter, node: ast.YieldFrom, frame: Frame) -> Value:
    value = loops.element(ip, evaluate(ip, node.value, frame), frame)
    frame.yielded = join(frame.yielded or EMPTY, value)
    return HOST


def _await(ip: Interpreter, node: ast.Await, frame: Frame) -> Value:
    return evaluate(ip, node.value, frame)


# The modules below import this one: their names are looked up when they are called.
_HANDLERS: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Lambda: _lambda,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.Starred: _starred,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.ListComp: comprehensions.comprehension,
    ast.SetComp: comprehensions.comprehension,
    ast.GeneratorExp: comprehensions.comprehension,
    ast.DictComp: comprehensions.of_dict,
    ast.IfExp: _ifexp,
    ast.BoolOp: _boolop,
    ast.NamedExpr: _namedexpr,
    ast.JoinedStr: _joinedstr,
    ast.Yield: _yield,
    ast.YieldFrom: _yieldfrom,
    ast.Await: _await,
    ast.Attribute: lambda ip, node, frame: attributes.attribute(ip, node, frame),
    ast.Subscript: lambda ip, node, frame: subscripts.subscript(ip, node, frame),
    ast.Call: lambda ip, node, frame: calls.call(ip, node, frame),
    ast.BinOp: lambda ip, node, frame: operators.binary(ip, node, frame),
    ast.UnaryOp: lambda ip, node, frame: operators.unary(ip, node, frame),
    ast.Compare: lambda ip, node, frame: operators.compare(ip, node, frame),
}

__all__ = ["deep_sources", "evaluate", "has_sample", "iterate"]
