"""`gather`: the rows of all ranks in the order of the global batch, filler rows removed."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .batches import Batch
from .collectives import arriving, enroll, exchange, gather_objects, leaf_if, nothing, together, wants_gradient
from .lost import reach
from .meeting import meet
from .state import DistifyError, require, state
from .uncompiled import uncompiled


@uncompiled
def gather(x: Any, dim: int = 0, of: Any = None) -> Any:
    """The whole batch on every rank, rows in the original's order.

    Args:
        x: this rank's rows: a tensor or NumPy array with rows along `dim`, a list with one object per row, or tuples
            and dicts of these.
        dim: dimension of the rows of tensors.
        of: a tensor of the batch that `x` comes from, where more than one is in use.

    Returns:
        The same structure, whole; tensors are differentiable. Ranks may hold any number of rows (after a mask).

    Raises:
        BatchError: it can't be told which batch `x` belongs to.
        DistifyError: shapes differ by rank in another dimension, or `x` has no rows.
    """
    run = require("gather")
    if run.precision is not None and run.precision.dtype in (torch.bfloat16, torch.float16):
        x = _widened(x, run.precision.dtype)
    if run.world_size == 1:
        return x
    together("gather")
    meet("runtime.gather()", _kind(x))
    assert run.batches is not None
    return _gather(x, dim, run.batches.current("gather", of))


def _kind(x: Any) -> str:
    """What must be equal on all ranks: the rows need not be."""
    if isinstance(x, Tensor):
        return str(x.dtype).removeprefix("torch.")
    if isinstance(x, dict):
        return "{" + ", ".join(f"{key}: {_kind(value)}" for key, value in x.items()) + "}"
    return type(x).__name__


def _widened(x: Any, half: torch.dtype) -> Any:
    """Outputs of autocast in the dtype that the original computed: NumPy knows no bfloat16, and files would hold it."""
    if isinstance(x, Tensor):
        return x.float() if x.dtype is half else x
    if isinstance(x, dict):
        return {key: _widened(value, half) for key, value in x.items()}
    if isinstance(x, list):
        return [_widened(value, half) for value in x]
    if isinstance(x, tuple):
        parts = [_widened(value, half) for value in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    return x


def _gather(x: Any, dim: int, batch: Batch) -> Any:
    if isinstance(x, Tensor):
        return _rows(x, dim, batch)
    if isinstance(x, list):
        return _objects(x, batch)
    if isinstance(x, dict):
        return {key: _gather(value, dim, batch) for key, value in x.items()}
    if isinstance(x, tuple) and x and all(isinstance(value, (str, bytes, int, float)) for value in x):
        return tuple(_objects(list(x), batch))  # what `collate` leaves of strings: one for each row
    if isinstance(x, tuple):
        parts = [_gather(value, dim, batch) for value in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    if type(x).__module__ == "numpy" and getattr(x, "ndim", 0) > 0:
        return _rows(torch.from_numpy(x), dim, batch).numpy()
    if x is None:
        return None
    raise DistifyError(
        f"runtime.gather(): a {type(x).__name__} has no rows. Pass a tensor or NumPy array with rows along dim, a list "
        "with one object per row, or tuples and dicts of these; for one number per rank use runtime.sum or mean."
    )


def _objects(x: list[Any], batch: Batch) -> list[Any]:
    parts = gather_objects([] if batch.filler else [_moved(item, torch.device("cpu")) for item in x])
    device = next((t.device for item in x for t in _tensors(item)), torch.device("cpu"))
    return [_moved(item, device) for part in parts for item in part]


def _tensors(item: Any) -> list[Tensor]:
    if isinstance(item, Tensor):
        return [item]
    values = item.values() if isinstance(item, dict) else item if isinstance(item, (list, tuple)) else ()
    return [tensor for value in values for tensor in _tensors(value)]


def _moved(item: Any, device: torch.device) -> Any:
    """Tensors inside an object, detached and moved: they travel pickled, and must not name another rank's GPU."""
    if isinstance(item, Tensor):
        return item.detach().to(device)
    if isinstance(item, dict):
        return {key: _moved(value, device) for key, value in item.items()}
    if isinstance(item, list):
        return [_moved(value, device) for value in item]
    if isinstance(item, tuple):
        parts = [_moved(value, device) for value in item]
        return type(item)(*parts) if hasattr(item, "_fields") else tuple(parts)
    return item


def _rows(x: Tensor, dim: int, batch: Batch) -> Tensor:
    if x.dim() == 0 and batch.local == 1:
        x = x.reshape(1)  # squeeze() took the rows of a slice of one
    if x.dim() == 0:
        raise DistifyError("runtime.gather(): a 0-dim tensor has no rows. Use runtime.mean, sum, max or min.")
    dim %= x.dim()
    rows = 0 if batch.filler else x.shape[dim]
    others = [*x.shape[:dim], *x.shape[dim + 1 :]]
    table = exchange([rows, int(x.requires_grad), x.dim(), *others])
    most = max(line[2] for line in table)
    if any(line[2] < most for line in table):
        if x.dim() == most - 1 and batch.local == 1:
            x, others = x.unsqueeze(dim), [*x.shape]
            rows = 0 if batch.filler else 1
        table = exchange([rows, int(x.requires_grad), x.dim(), *others])
    if any(line[2:] != table[0][2:] for line in table):
        listing = ", ".join(str(tuple(line[3 : 2 + line[2]])) for line in table)
        raise DistifyError(
            f"runtime.gather(dim={dim}): apart from the rows the ranks hold shapes {listing}. Pad to a common size."
        )
    counts = [line[0] for line in table]
    operand = leaf_if(x, sum(line[1] for line in table)) if wants_gradient(x) else None
    if operand is None:
        return _collect(x.detach(), dim, counts)
    return _Gather.apply(operand, dim, counts, enroll())  # type: ignore[no-any-return, no-untyped-call]


def _collect(x: Tensor, dim: int, counts: list[int]) -> Tensor:
    """Concatenate `counts[rank]` leading rows of every rank along `dim`; moved as bytes, so of any type."""
    mine = x.movedim(dim, 0)[: counts[state.rank]]
    most = max(counts)
    padded = mine.new_zeros((most, *mine.shape[1:]))
    padded[: mine.shape[0]] = mine
    size = padded.numel() * padded.element_size()
    raw = padded.view(-1).view(torch.uint8) if size else torch.empty(0, dtype=torch.uint8, device=x.device)
    parts = [torch.empty_like(raw) for _ in counts]
    if size:
        reach(dist.all_gather, parts, raw, group=state.reduce_group)
    pieces = [part.view(x.dtype).view(padded.shape)[:count] for part, count in zip(parts, counts, strict=True)]
    whole = torch.cat(pieces)
    return whole if dim == 0 else whole.movedim(0, dim).contiguous()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, counts: list[int], serial: int) -> Tensor:
        ctx.dim, ctx.counts, ctx.serial, ctx.shape = dim, counts, serial, x.shape
        return _collect(x, dim, counts)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None]:
        grad = arriving(grad, ctx.serial)
        start, rows = sum(ctx.counts[: state.rank]), ctx.counts[state.rank]
        if rows == 0:  # a filler, or nothing left of the slice
            return nothing(torch.empty(ctx.shape, dtype=grad.dtype, device=grad.device)), None, None, None
        return grad.narrow(ctx.dim, start, rows) * state.world_size, None, None, None
