"""How values combine that meet in one operation: what is split, gathered or made global for it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import naming, pieces, sinks
from .local import deep_sources
from .marks import Full, Split
from .replacing import replace
from .values import EMPTY, GLOBAL, REDUCED, Batch, Dep, Value, tensor, union, whole

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter


Operand = tuple[ast.expr, Value]

MIXED = "a value reduced over the slice meets values per sample inside the forward"


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
