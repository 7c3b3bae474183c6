"""Abstract interpretation: arithmetic, comparison, and how batch types combine."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import deciding, naming, pieces, row_loops, sinks
from .local import deep_sources
from .model import Full, Split
from .replacing import replace
from .values import EMPTY, GLOBAL, NOTHING, REDUCED, ROWS, SAMPLE, Batch, Dep, Role, Value, join, tensor, union, whole

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]
COUNT = "the number of rows of a slice meets values inside the forward"
MIXED = "a value reduced over the slice meets values per sample inside the forward"


def binary(ip: Interpreter, node: ast.BinOp, frame: Frame) -> Value:
    """Value of `left op right`."""
    from . import expressions

    left = expressions.evaluate(ip, node.left, frame)
    right = expressions.evaluate(ip, node.right, frame)
    return combine(ip, node.op, (node.left, left), (node.right, right), node, frame)


def combine(ip: Interpreter, op: ast.operator, left: Operand, right: Operand, node: ast.expr, frame: Frame) -> Value:
    """Combine two evaluated operands."""
    from . import products

    (_, a), (right_node, b) = left, right
    if frame.forward and row_loops.counts_positions((a, b)):
        return row_loops.UNBOUND
    if isinstance(op, ast.Add) and a.has(Role.MODEL) and b.has(Role.MODEL):
        return join(a, b)  # two lists of modules
    if not frame.forward:
        meet_parameters(ip, [a, b])
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
    return elementwise(ip, [left, right], node, frame)


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
    from .values import join

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


def elementwise(ip: Interpreter, operands: list[Operand], node: ast.expr, frame: Frame) -> Value:
    """Batch type of an elementwise operation; whole batches that meet slices are split, counts made global."""
    values = [v for _, v in operands]
    taint = union(v.params for v in values)
    for operand, value in operands:
        if value.is_param and _is_read(ip, value, frame):
            full(ip, operand, value)
    samples = [v for v in values if v.is_sample]
    if not samples:
        return _without_samples(operands, node)
    if any(v.dep is Dep.PENDING for v in values):
        return tensor(Batch(Dep.UNKNOWN, reason=MIXED), *values)
    unknown = [v for v in values if v.dep is Dep.UNKNOWN]
    if unknown:
        return tensor(unknown[0].batch, *values)
    met = meet(ip, operands, frame)
    if met is not None:
        return _without_samples([(n, met if v.is_sample else v) for n, v in operands], node)
    dims = {v.batch.dim for v in samples}
    ndim = max((v.batch.ndim for v in samples if v.batch.ndim is not None), default=None)
    if any(v.batch.ndim is None for v in samples):
        ndim = None
    dim = dims.pop() if len(dims) == 1 else None
    ragged = any(v.batch.ragged for v in samples)
    reason = next((v.batch.reason for v in samples if v.batch.reason), "")
    if dim is None and None not in {v.batch.dim for v in samples}:
        return coupled(ip, operands, node, frame)
    flat = ndim is None and any(v.batch.flat or v.batch.ndim == 1 for v in samples)
    batch = Batch(Dep.SAMPLE, dim=dim, ndim=ndim, flat=flat, ragged=ragged, reason=reason)
    return replace(tensor(batch, *values), params=taint)


def _without_samples(operands: list[Operand], node: ast.expr) -> Value:
    """An elementwise operation on values of which none has this rank's rows."""
    values = [v for _, v in operands]
    taint = union(v.params for v in values)
    worst = max(values, key=lambda v: v.dep, default=EMPTY)
    if worst.dep > Dep.ROWS:
        return replace(tensor(worst.batch, *values), arrival=None)
    origin = pieces.origin_of(values, node)
    weak = any(v.weak for v in values)
    wholes = [v.batch for v in values if v.batch.whole and not v.batch.exact]
    batch = replace(REDUCED if any(v.batch.data for v in values) else GLOBAL, reason=pieces.reason_of(values))
    if wholes:
        origin = next((v.origin for v in values if v.batch.whole), None)
        dims = {b.dim for b in wholes}
        batch = whole(dims.pop() if len(dims) == 1 else None, ragged=any(b.ragged for b in wholes))
    size0 = next((v.size0 for v in values if v.size0 is not None), None)
    return Value(batch=batch, params=taint, origin=origin, weak=weak, size0=size0)


def meet(ip: Interpreter, operands: list[Operand], frame: Frame) -> Value | None:
    """Whole batches that meet slices are cut to this rank's rows; where they can't be, the slices are gathered.

    Returns what a gathered slice is, or `None` if the slices stay.
    """
    samples = [v for _, v in operands if v.is_sample]
    kept = False
    for operand, value in operands:
        if value.dep is not Dep.GLOBAL or value.batch.exact:
            continue
        if value.batch.whole:
            fits = value.batch.dim is not None and not value.batch.ragged
            if fits and all(v.batch.dim == value.batch.dim and not v.batch.reason for v in samples):
                cut_to(ip, operand, value, value.batch.dim, samples, frame)
            else:
                kept = True
        elif value.origin is not None or _is_batch_shaped(ip, value, samples):
            cut_to(ip, operand, value, None, samples, frame)
        elif value.whole and ip.sites.splits and not frame.forward:
            ip.sites.report("DST111", operand, "A slice meets what the model made of a whole batch.")
    if not kept or frame.forward:
        return None
    for operand, value in operands:
        if value.is_sample:
            sinks.gather(ip, operand, value, frame)
    return Value(batch=whole(samples[0].batch.dim, ragged=True))


def cut_to(
    ip: Interpreter, operand: ast.expr, value: Value, dim: int | None, samples: list[Value], frame: Frame
) -> None:
    """A whole batch is cut to the rows of the samples that it meets."""
    place = operand if value.origin is None else naming.after_filling(ip, value.origin, operand, frame)
    split(ip, place, dim)
    ip.sites.meet(union(v.sources for v in samples) | {place})


def _is_batch_shaped(ip: Interpreter, value: Value, samples: list[Value]) -> bool:
    """Whether a tensor was created with a loader's batch size as its first size."""
    if value.size0 is None:
        return False
    return any(value.size0 == ip.batch_sizes.get(source) for v in samples for source in v.sources)


def coupled(
    ip: Interpreter, operands: list[Operand], node: ast.expr, frame: Frame, result: Batch | None = None
) -> Value:
    """Samples are mixed: outside a forward every per-sample operand is gathered first, inside it is refused.

    `result` is the batch type of what comes out, if not one row against another.
    """
    if ip.sites.quiet:
        return tensor(Batch(Dep.SAMPLE, dim=result.dim if result is not None else None), *[v for _, v in operands])
    if frame.forward:
        ip.sites.report("DST111", node)
        return tensor(Batch(Dep.COUPLED, reason="samples are mixed inside a forward"), *[v for _, v in operands])
    for operand, value in operands:
        if value.is_sample:
            sinks.gather(ip, operand, value, frame, "DST115")
        elif value.dep is Dep.ROWS:
            sinks.count(ip, operand, frame)
    return Value(batch=whole() if result is None else result, params=union(v.params for _, v in operands))


def split(ip: Interpreter, node: ast.expr, dim: int | None = None) -> None:
    """A hand-made batch is to be split, along its batch dimension where that is known."""
    if dim is not None:
        if not sinks.is_runtime_argument(ip, node):
            ip.sites.keep(ip.sites.splits, node, Split(node, dim))
        return
    ip.whole[node] = None
    if ip.split_dim is not None and not sinks.is_runtime_argument(ip, node) and node not in ip.sites.splits:
        ip.sites.keep(ip.sites.splits, node, Split(node, ip.split_dim))


def full(ip: Interpreter, node: ast.expr, value: Value) -> None:
    """A parameter is read outside a forward: what iterates over the parameters gives whole ones.

    Those of a model that is updated by hand always are.
    """
    where = value.arg or node
    cells = value.params & ip.sites.owned - union(ip.made.by_hand.values())
    if not sinks.is_runtime_argument(ip, where) and cells:
        ip.sites.keep(ip.sites.fulls, where, Full(where))


def meet_parameters(ip: Interpreter, values: list[Value]) -> None:
    """Batches that meet a trained parameter reach what is trained, as those that a model is given do."""
    if any(v.is_param and (v.loose or v.params & ip.sites.owned) for v in values):
        for value in values:
            ip.sites.feed(deep_sources(value))


def _is_read(ip: Interpreter, value: Value, frame: Frame) -> bool:
    from . import changes

    return changes.is_read(ip, value, frame)


def unary(ip: Interpreter, node: ast.UnaryOp, frame: Frame) -> Value:
    """Value of `op operand`."""
    from . import expressions

    value = expressions.evaluate(ip, node.operand, frame)
    if value.is_param and not frame.forward:
        full(ip, node.operand, value)
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
    from . import creation, expressions

    operands = [(n, expressions.evaluate(ip, n, frame)) for n in (node.left, *node.comparators)]
    if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
        return Value(batch=GLOBAL)
    if frame.forward and row_loops.counts_positions(v for _, v in operands):
        return row_loops.UNBOUND
    if any(v.is_sample for _, v in operands):
        if not frame.forward:
            creation.settle_compared(ip, [v for _, v in operands], node)
        return elementwise(ip, operands, node, frame)
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


__all__ = ["SAMPLE", "Operand", "binary", "combine", "compare", "coupled", "elementwise", "full", "split", "unary"]
