"""Abstract interpretation: indexing of what is no slice, whole batches and what is the same on all ranks."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import moving, sinks
from .values import EMPTY, GLOBAL, REDUCED, Batch, Dep, Value, tensor, whole

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter


def part_of_whole(batch: Batch, part: ast.expr, value: Value, node: ast.expr, dim: int) -> Value:
    """The rows of a whole batch by an index: in another order, some of them, or one."""
    if value.origin is not None or value.batch.whole:
        return Value(batch=whole(dim, batch.ndim, ragged=value.batch.ragged), origin=node)
    if isinstance(part, ast.Slice):
        everything = part.lower is None and part.upper is None
        return Value(batch=whole(dim, batch.ndim, ragged=not everything))
    return Value(batch=REDUCED)


def whole_by_rows(ip: Interpreter, base: Value, index: Value, node: ast.Subscript, frame: Frame) -> Value:
    """Index of a whole batch by this rank's rows: they are made whole as well."""
    several = isinstance(node.slice, ast.Tuple) and index.items is not None
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for part, value in zip(parts, index.items or () if several else (index,)):
        if value.is_sample:
            sinks.gather(ip, part, value, frame)
        elif value.dep is Dep.ROWS:
            sinks.count(ip, part, frame)
    return Value(batch=whole(0, ragged=True))


def of_whole(ip: Interpreter, base: Value, index: Value, node: ast.Subscript, frame: Frame) -> Value:
    """Index of a whole batch by what is the same on every rank."""
    first = isinstance(node.slice, ast.Tuple)
    part = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    value = index.items[0] if first and index.items else index
    if isinstance(part, ast.Slice) and not frame.forward:
        for bound in (part.lower, part.upper):
            if bound is not None and ip.current.get(bound, EMPTY).dep is Dep.ROWS:
                sinks.count(ip, bound, frame)
        if part.lower is None and part.upper is not None and ip.current.get(part.upper, EMPTY).batch.exact:
            return Value(batch=whole(0 if base.batch.dim == 0 else None, base.batch.ndim), origin=node)
    if base.batch.dim == 0 and not (isinstance(part, ast.Constant) and part.value in (None, ...)):
        return part_of_whole(base.batch, part, value, node, 0)
    return Value(batch=whole(None), origin=node if value.origin is not None else None)


def is_by_position(ip: Interpreter, base: Value, node: ast.Subscript) -> bool:
    """Whether an index picks rows of a slice by their position in the batch."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    dim = base.batch.dim
    if dim is None or dim >= len(parts) or any(isinstance(p, ast.Constant) and p.value in (None, ...) for p in parts):
        return False
    part = parts[dim]
    if isinstance(part, ast.Slice):
        upper = ip.current.get(part.upper, EMPTY) if part.upper is not None else None
        return part.lower is not None or (upper is not None and not (upper.dep is Dep.ROWS and upper.batch.exact))
    return not ip.current.get(part, EMPTY).is_sample


def _first_rows(ip: Interpreter, node: ast.expr) -> ast.expr | None:
    """The bound of `[:n]`, where that is the number of this rank's rows."""
    first = node.elts[0] if isinstance(node, ast.Tuple) and node.elts else node
    if not isinstance(first, ast.Slice) or first.upper is None or first.lower is not None:
        return None
    held = ip.current.get(first.upper, EMPTY)
    return first.upper if held.dep is Dep.ROWS or held.batch.exact else None


def of_global(ip: Interpreter, base: Value, index: Value, node: ast.Subscript, frame: Frame) -> Value:
    """Index of replicated data: by rows of the batch it is per-sample, by a range of the loop it picks a batch."""
    bound = _first_rows(ip, node.slice)
    if bound is not None and base.dep is Dep.GLOBAL:
        if frame.forward:
            ip.sites.report("DST111", node, "What it picks for a sample depends on the sample's position in the batch.")
            return tensor(Batch(Dep.UNKNOWN, reason="picks rows by the position in the batch inside a forward"))
        sinks.count(ip, bound, frame)
        return Value(batch=whole(0), origin=node, params=base.params)
    if index.is_sample:
        return tensor(Batch(Dep.SAMPLE, dim=index.batch.dim), index)
    members = index.items or (index,)
    if any(v.is_sample for v in members):
        return tensor(Batch(Dep.SAMPLE, dim=None), *members)
    batch = base.batch if base.dep is Dep.GLOBAL else GLOBAL
    ranged = moving.is_range(node.slice, frame)
    picks = index.origin is not None or ranged
    weak = ranged or index.weak
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    keeps = isinstance(first, ast.Slice) and first.lower is None and first.upper is None
    # `streams[:, i:i + steps]`: time steps of all rows, which are streams that lie side by side
    streams = keeps and isinstance(node.slice, ast.Tuple) and any(moving.is_range(p, frame) for p in node.slice.elts)
    picks = picks or streams or (keeps and base.origin is not None)
    weak = weak or streams or (keeps and base.weak)
    if not picks and not base.params and moving.is_part(node.slice, frame):
        return Value(batch=batch, piece=True, weak=True)
    return Value(batch=batch, params=base.params, origin=node if picks and not base.params else None, weak=weak)
