"""Abstract interpretation: arithmetic and comparison."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import combining, creation, deciding, expressions, overloaded, pieces, products, row_loops, sinks
from .joins import join
from .replacing import replace
from .values import EMPTY, GLOBAL, NOTHING, REDUCED, ROWS, Batch, Dep, Role, Value, tensor, whole

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]
COUNT = "the number of rows of a slice meets values inside the forward"


def binary(ip: Interpreter, node: ast.BinOp, frame: Frame) -> Value:
    """Value of `left op right`."""
    left = expressions.evaluate(ip, node.left, frame)
    right = expressions.evaluate(ip, node.right, frame)
    return combine(ip, node.op, (node.left, left), (node.right, right), node, frame)


def combine(ip: Interpreter, op: ast.operator, left: Operand, right: Operand, node: ast.expr, frame: Frame) -> Value:
    """Combine two evaluated operands."""
    (_, a), (right_node, b) = left, right
    own = overloaded.combined(ip, op, a, b, frame)
    if own is not None:
        return own
    if frame.forward and row_loops.counts_positions((a, b)):
        return row_loops.UNBOUND
    if isinstance(op, ast.Add) and a.has(Role.MODEL) and b.has(Role.MODEL):
        return join(a, b)  # two lists of modules
    if not frame.forward:
        combining.meet_parameters(ip, [a, b])
    if isinstance(op, ast.MatMult):
        return products.matmul(ip, node, left, right, frame)
    if isinstance(op, ast.Mod) and isinstance(a.const, str):
        sinks.as_global(ip, right_node, b, frame)
        return EMPTY
    if isinstance(op, ast.Mult) and (repeated := _one_for_each(a, b) or _one_for_each(b, a)) is not None:
        made = {"built": frozenset({node})} if repeated.is_sample else {"origin": node}
        return replace(repeated, **made)
    if _is_container(a) or _is_container(b):
        for operand, value in (left, right):
            if value.dep is Dep.ROWS and not frame.forward:
                sinks.count(ip, operand, frame)
        return _containers(a, b)
    if Dep.ROWS in (a.dep, b.dep):
        return _with_rows(ip, op, left, right, frame)
    if Dep.PENDING in (a.dep, b.dep):
        return _with_pending(op, a, b)
    return combining.elementwise(ip, [left, right], node, frame)


def _one_for_each(listed: Value, count: Value) -> Value | None:
    """`[0] * len(y)`: a list with an entry for each of this rank's rows, or of the whole batch's."""
    number = listed.items is not None and len(listed.items) == 1 and not (listed.items[0].objs or listed.items[0].items)
    if not number or not count.batch.exact:
        return None
    if count.dep is Dep.GLOBAL:
        return Value(batch=whole(0, 1))
    return Value(batch=Batch(Dep.SAMPLE, dim=0, ndim=1), sources=count.sources)


def _is_container(value: Value) -> bool:
    return value.items is not None or (bool(value.objs) and value.dep is Dep.BOTTOM and not value.roles)


def _containers(a: Value, b: Value) -> Value:
    """`list + list`, `[x] * n`."""
    taint = a.params | b.params
    if a.items is not None and b.items is not None and not a.objs and not b.objs:
        return Value(items=a.items + b.items, params=taint)
    from .joins import join

    merged = join(a, b)
    return replace(merged, items=merged.items if a.items == merged.items else None, params=taint)


def _with_rows(ip: Interpreter, op: ast.operator, left: Operand, right: Operand, frame: Frame) -> Value:
    """Arithmetic with this rank's row count: stays local while it is a multiple of it, else becomes global."""
    (_, a), (_, b) = left, right
    both = a.dep is Dep.ROWS and b.dep is Dep.ROWS
    other = b if a.dep is Dep.ROWS else a
    linear = isinstance(op, ast.Mult) and not both and other.dep is Dep.GLOBAL and not other.batch.data
    shared = isinstance(op, (ast.Add, ast.Sub)) and both
    divided = isinstance(op, ast.Div) and a.dep is Dep.ROWS and b.dep is Dep.GLOBAL and not b.batch.data
    if linear or shared or divided:
        mixed = any(v.batch.mixed for v in (a, b))
        return tensor(Batch(Dep.ROWS, mixed=mixed), *[v for v in (a, b) if v.dep is Dep.ROWS])
    averaged = other.dep is Dep.PENDING and isinstance(op, ast.Div) and b.dep is Dep.ROWS
    if frame.forward and averaged and a.batch.kind == "sum":
        # A sum divided by the rows it was taken over is a mean.
        return a.with_batch(replace(a.batch, kind="mean"))
    if frame.forward:
        weighs = not isinstance(op, (ast.Mod, ast.FloorDiv))  # which are arithmetic of positions
        if weighs and not both and (other.is_sample or other.dep is Dep.PENDING):
            return tensor(Batch(Dep.UNKNOWN, reason=COUNT), *[v for v in (a, b) if v is other])
        if other.is_sample:
            return other
        return tensor(ROWS, *[v for v in (a, b) if v.dep is Dep.ROWS])
    for node, value in (left, right):
        if value.dep is Dep.ROWS:
            sinks.count(ip, node, frame)
    if other.is_sample:
        return other
    return tensor(REDUCED)


def _with_pending(op: ast.operator, a: Value, b: Value) -> Value:
    """Arithmetic inside a forward on what it has reduced over its slice: linear steps keep the reduction."""
    pending, other = (a, b) if a.dep is Dep.PENDING else (b, a)
    taint = a.params | b.params
    if a.dep is b.dep:
        same = (a.batch.kind, a.batch.by) == (b.batch.kind, b.batch.by)
        if same and isinstance(op, (ast.Add, ast.Sub)):
            return replace(a, sources=a.sources | b.sources, params=taint, arrival=None)
        if isinstance(op, ast.Div) and a.batch.kind == b.batch.kind == "sum":
            return tensor(Batch(Dep.UNKNOWN, reason="a ratio of two sums over the slice is formed inside the forward"))
        return tensor(Batch(Dep.UNKNOWN, reason="terms of different reductions are combined inside the forward"))
    if other.dep <= Dep.GLOBAL:
        scaled = isinstance(op, ast.Mult) or (isinstance(op, ast.Div) and a is pending)
        shifted = isinstance(op, (ast.Add, ast.Sub)) and pending.batch.kind == "mean"
        if scaled or shifted:
            return replace(pending, params=taint, arrival=None)
    return tensor(Batch(Dep.UNKNOWN, reason="a value reduced over the slice is used in a nonlinear way in the forward"))


def unary(ip: Interpreter, node: ast.UnaryOp, frame: Frame) -> Value:
    """Value of `op operand`."""
    value = expressions.evaluate(ip, node.operand, frame)
    if value.is_param and not frame.forward:
        combining.full(ip, node.operand, value)
        value = replace(value, is_param=False)
    if isinstance(node.op, ast.Not):
        sinks.as_global(ip, node.operand, value, frame)
        return Value(batch=GLOBAL)
    if isinstance(node.op, ast.USub) and isinstance(value.const, (int, float)):
        return replace(value, const=-value.const)
    if value.dep is Dep.ROWS and not frame.forward:
        return replace(value, const=NOTHING)
    return replace(value, const=NOTHING, items=None, arrival=None)


def compare(ip: Interpreter, node: ast.Compare, frame: Frame) -> Value:
    """Value of a comparison: per-sample for tensors, a global decision for host numbers."""
    operands = [(n, expressions.evaluate(ip, n, frame)) for n in (node.left, *node.comparators)]
    if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
        return Value(batch=GLOBAL)
    if len(operands) == 2 and (operands[0][1].objs or operands[1][1].objs):
        own = overloaded.compared(ip, node.ops[0], operands[0][1], operands[1][1], frame)
        if own is not None:
            return own
    if frame.forward and row_loops.counts_positions(v for _, v in operands):
        return row_loops.UNBOUND
    if any(v.is_sample for _, v in operands):
        if not frame.forward:
            creation.settle_compared(ip, [v for _, v in operands], node)
        return combining.elementwise(ip, operands, node, frame)
    if frame.forward:
        return deciding.compared(v for _, v in operands) or Value(batch=GLOBAL)
    shapes = [o for o in operands if o[1].shape_dim is not None and o[1].shape_dim >= 0]
    if any(v.shape_dim in (None, -1) and not any(i.dep is Dep.ROWS for i in v.items or ()) for _, v in operands):
        for operand, value in shapes:
            sinks.as_global(ip, operand, value, frame)
    rows = [o for o in operands if o[1].dep is Dep.ROWS]
    if len(rows) != len(operands):
        for operand, _ in rows:
            sinks.count(ip, operand, frame)
    values = [v for _, v in operands]
    origin = pieces.origin_of(values, node)
    batch = replace(REDUCED if any(v.batch.data for v in values) else GLOBAL, reason=pieces.reason_of(values))
    return Value(batch=batch, origin=origin, weak=any(v.weak for _, v in operands))
