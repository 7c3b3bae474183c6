"""view, reshape, expand, repeat: where the rows go by the sizes of a new shape."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import combining, naming, pieces, sinks
from .losses import is_pure
from .marks import Size
from .replacing import replace
from .values import EMPTY, Batch, Dep, Value, tensor, whole

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]
_FIXED = "This shape has a fixed number of rows, and a process holds a slice of the batch only."
_FOLLOW = "take the number of rows from the tensor: x.view(x.size(0), -1)"


def moved(value: Value, dim: int | None, ndim: int | None = None, *, flat: bool = False) -> Value:
    """A tensor with its rows along another dimension."""
    return replace(value, batch=replace(value.batch, dim=dim, ndim=ndim, flat=flat), opaque=False, leaf=False)


def view(ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame) -> Value:
    """view, reshape: the rows stay first, or become part of a flattened dimension."""
    value, sizes = operands[0][1], sizes_of(operands, keywords)
    if not value.is_sample:
        return _view_whole(ip, value, sizes, frame)
    for index, (_, size) in enumerate(sizes):
        if size.dep is Dep.ROWS:
            together = value.batch.dim == 0 or size.batch.exact or value.batch.dim is None
            return moved(value, index if together else None, len(sizes))
        if size.shape_dim is not None:
            return moved(value, value.batch.dim)
    if _follows(ip, value, operands[0][0], sizes, frame):
        return moved(value, value.batch.dim, len(sizes))
    if value.batch.dim == 0 and merges(sizes) and not any(_is_batch_size(ip, value, size) for size in sizes[1:]):
        ip.sites.keep(ip.sites.sizes, sizes[0][0], Size(sizes[0][0], "-1"))
        return moved(value, 0, len(sizes))
    if frame.forward and sizes and all(isinstance(size.const, int) and size.const > 0 for _, size in sizes):
        ip.sites.report("DST110", node, _FIXED, _FOLLOW)  # no -1 that follows the rows
    if value.batch.dim != 0 and any(_is_batch_size(ip, value, size) for size in sizes):
        if frame.forward:
            ip.sites.report("DST110", node, _FIXED, _FOLLOW)
            return moved(value, None, len(sizes))
        return combining.coupled(ip, operands[:1], node, frame, whole(None, len(sizes)))
    if value.batch.dim != 0:
        first = sizes[0][1].const if sizes else None
        return moved(value, None if first == -1 or value.batch.dim is None else value.batch.dim, len(sizes) or None)
    # Leading ones are new dimensions: `target.view(1, -1)` has its rows second.
    lead = next((i for i, (_, v) in enumerate(sizes) if v.const != 1), 0)
    if sizes and _is_fixed(sizes[lead][1]):
        if not frame.forward:
            return combining.coupled(ip, operands[:1], node, frame, whole(lead, len(sizes)))
        if _is_batch_size(ip, value, sizes[lead]) or _is_option(sizes[lead][1]):
            ip.sites.report("DST110", node, _FIXED, _FOLLOW)
    return moved(value, lead, len(sizes) or None)


def picked(name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.expr) -> Value | None:
    """A batch made by hand in another shape, `None` if this is no view, or of no batch.

    Where the dimension to split may be gone in the new shape, it is split before.
    """
    if name not in ("view", "reshape", "flatten", "ravel") or not operands:
        return None
    value, sizes = operands[0][1], sizes_of(operands, keywords)
    given = sizes[0][1] if sizes else EMPTY
    one = len(sizes) == 1 and given.shape_dim is None and not given.objs
    flat = len(operands) == 1 if name in ("flatten", "ravel") else one
    counted = not flat and given.batch.exact and given.dep is Dep.GLOBAL
    if value.params or (value.origin is None and not counted):
        return None
    merged = flat or given.const == -1 or merges(sizes)
    batch = Batch(Dep.GLOBAL, ndim=1 if flat else None, data=value.batch.data, reason=pieces.SHAPED if merged else "")
    return Value(
        batch=batch, origin=value.origin if merged else pieces.origin_of([value], node) or node, weak=value.weak
    )


def merges(sizes: list[Operand]) -> bool:
    """Whether the first size is the rows times something (`y.view(rows * steps)`), which -1 says as well."""
    if not sizes or not _is_fixed(sizes[0][1]) or any(v.const == -1 for _, v in sizes):
        return False
    node = sizes[0][0]
    return len(sizes) == 1 or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult))


def _follows(ip: Interpreter, value: Value, node: ast.expr, sizes: list[Operand], frame: Frame) -> bool:
    """Whether the size in the rows' place is the loader's batch size, and can be that of the slice instead."""
    dim = value.batch.dim
    if dim is None or dim >= len(sizes) or not _is_batch_size(ip, value, sizes[dim]):
        return False
    others = [size.const for k, (_, size) in enumerate(sizes) if k != dim]
    rows = f"{ip.text(node)}.size({dim})" if is_pure(node) else naming.rows_text(value, frame)
    text = rows if -1 in others else "-1"
    if text is not None:
        ip.sites.keep(ip.sites.sizes, sizes[dim][0], Size(sizes[dim][0], text))
    return text is not None


def sizes_of(operands: list[Operand], keywords: dict[str, Operand]) -> list[Operand]:
    """Sizes of a new shape, given one by one, as a tuple, or by keyword."""
    given = [keywords[name] for name in ("shape", "size") if name in keywords]
    found: list[Operand] = []
    for node, value in [*operands[1:], *given]:
        if value.items is None:
            found.append((node, value))
            continue
        nodes = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node] * len(value.items)
        found.extend(zip(nodes, value.items))
    return found


def _is_fixed(size: Value) -> bool:
    """Whether a size is a number that does not follow the rows: a constant but -1, an option."""
    if isinstance(size.const, int):
        return size.const > 1
    return size.dep is Dep.GLOBAL and size.shape_dim is None


def _is_option(size: Value) -> bool:
    """Whether a size is a number given from outside, not read from a tensor: in front, that of the batch."""
    return not isinstance(size.const, int) and not size.measured and not size.batch.data


def _is_batch_size(ip: Interpreter, value: Value, size: Operand) -> bool:
    """Whether a size is the batch size of the loader that a value comes from."""
    node, held = size
    text = repr(held.const) if isinstance(held.const, int) else held.size0 or ip.text(node)
    return any(ip.batch_sizes.get(source) == text for source in value.sources)


def _view_whole(ip: Interpreter, value: Value, sizes: list[Operand], frame: Frame) -> Value:
    """What is the same on every rank, viewed: as this rank's rows only if it is a batch made by hand."""
    rows = [i for i, (_, v) in enumerate(sizes) if v.dep is Dep.ROWS]
    if value.batch.whole:
        for i in [] if frame.forward else rows:
            sinks.count(ip, sizes[i][0], frame)
        counted = [i for i, (_, v) in enumerate(sizes) if v.batch.exact]
        flat = bool(sizes) and sizes[0][1].const == -1 and value.batch.dim == 0
        return moved(value, counted[0] if counted else 0 if flat else None, len(sizes))
    if not rows:
        return value
    if value.origin is not None:
        combining.split(ip, value.origin)
    elif value.dep is Dep.GLOBAL and not frame.forward:
        for i in rows:
            sinks.count(ip, sizes[i][0], frame)
        return value
    return tensor(Batch(Dep.SAMPLE, dim=rows[0]), value, *[v for _, v in sizes])


def expand(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """expand: a row count among the sizes makes a replicated tensor per-sample."""
    value, sizes = operands[0][1], sizes_of(operands, keywords)
    if value.is_sample or value.batch.whole:
        return moved(value, _shifted(value.batch, len(sizes)), len(sizes) or None)
    for index, (_, size) in enumerate(sizes):
        if size.dep is Dep.ROWS:
            return replace(tensor(Batch(Dep.SAMPLE, dim=index), value, *[v for _, v in sizes]), built=frozenset({node}))
        if size.shape_dim is not None and size.shape_dim >= 0:
            return tensor(Batch(Dep.SAMPLE, dim=size.shape_dim), value, *[v for _, v in sizes])
    return value


def _shifted(batch: Batch, sizes: int) -> int | None:
    """Position of the rows after new dimensions were put in front."""
    if batch.dim is None or batch.ndim is None or not sizes:
        return batch.dim
    return batch.dim + max(0, sizes - batch.ndim)


def repeat(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """repeat, tile: the rows of a slice again and again are slices in a row, not a slice of repeated rows."""
    value, sizes = operands[0][1], sizes_of(operands, keywords)
    if value.batch.whole:
        return moved(value, None)
    if not value.is_sample:
        return expand(ip, operands, keywords, node, frame)
    dim = _shifted(value.batch, len(sizes))
    if dim is None or dim >= len(sizes) or sizes[dim][1].const == 1:
        return moved(value, dim, len(sizes) or None)
    count = sizes[dim][1].const
    batch = Batch(Dep.SAMPLE, dim=dim, ndim=len(sizes), reason=f"cat{count if isinstance(count, int) else 0}")
    return replace(value, batch=batch, opaque=False, leaf=False, built=value.built or frozenset({operands[0][0]}))


def like_other(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """view_as, expand_as, reshape_as: the shape of the other."""
    samples = [v for _, v in reversed(operands) if v.is_sample]
    return tensor(samples[0].batch, *[v for _, v in operands]) if samples else operands[0][1]
