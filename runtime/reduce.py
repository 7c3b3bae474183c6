"""Reductions where the batch dimension disappears: the value of the whole batch, the same on every rank.

Each is one collective of what the rank computed from its slice. Gradients follow the convention in `collectives`: the
backward multiplies by N times the rank's share, and a rank that holds only a filler row contributes nothing.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .batches import Batch
from .collectives import (
    accumulator,
    all_reduce,
    attach,
    leaf_if,
    same_shape,
    together,
    wants_gradient,
)
from .meeting import form, meet, on
from .state import DistifyError, State, require, state
from .uncompiled import uncompiled
from .window import Window


@uncompiled
def mean(x: Any, by: Any = None, of: Any = None) -> Any:
    """Mean over the global batch of what each rank averaged over its slice.

    Args:
        x: the mean over this rank's slice: a number, or a float tensor (0-dim, or elementwise over equal shapes).
        by: what the local mean divided by, if not this rank's rows: a number or 0-dim tensor, such as the count of
            targets that are not ignored, or the sum of their class weights. It may be 0 on some ranks, which don't
            count then, NaN or not; where it is 0 on all, the result is what the ranks' own `x` are, as NaN of 0/0.
        of: a tensor of the batch that `x` comes from, where more than one is in use.

    Returns:
        The same kind and dtype as `x` (a float for a number), equal on all ranks, differentiable.

    Raises:
        BatchError: it can't be told which batch `x` belongs to.
    """
    run = require("mean")
    if _alone(run):
        return x
    value, back = as_tensor(x)
    if not (value.is_floating_point() or value.is_complex()):
        value = value.to(torch.float64 if back is not None else torch.get_default_dtype())
    batch = batch_of(run, "mean", of, value)
    if run.world_size > 1:
        same_shape("mean", value)
    found = _mean_by_rows(value, batch) if by is None else _mean_by(value, by, batch)
    return found if back is None else back(found)


@uncompiled
def sum(x: Any, of: Any = None) -> Any:
    """Sum over the global batch of what each rank summed over its slice.

    Args:
        x: the sum over this rank's slice: a number, or a tensor (0-dim, or elementwise over equal shapes).
        of: a tensor of the batch that `x` comes from, where more than one is in use.

    Returns:
        The same kind and dtype as `x` (whole numbers and bools become int64), equal on all ranks, differentiable.

    Raises:
        BatchError: it can't be told which batch `x` belongs to.
    """
    run = require("sum")
    if _alone(run):
        return x
    value, back = as_tensor(x)
    batch = batch_of(run, "sum", of, value)
    if run.world_size > 1:
        same_shape("sum", value)
    found = _weighted(value, float(not batch.filler), lambda w: (w.sum_weight(), w.uses_sum))
    return found if back is None else back(found)


def _alone(run: State) -> bool:
    """Whether there is nothing to reduce or weigh."""
    assert run.windows is not None
    return run.world_size == 1 and run.windows.active() is None


def batch_of(run: State, caller: str, of: Any, x: Tensor) -> Batch:
    together(caller)
    if on():
        meet(f"runtime.{caller}()", form(x))
    assert run.batches is not None
    assert run.windows is not None
    batch = run.batches.current(caller, of)
    window = run.windows.active()
    if window is not None and window.size > 1 and batch is not batch.source.latest:
        raise DistifyError(
            f"runtime.{caller}() in a window of several batches: {batch.source.name} was asked for its next batch "
            "before this one was used, so the window would count the wrong ones. Fetch each batch where it is used, or "
            "train without --accumulate."
        )
    return batch


def as_tensor(x: Any) -> tuple[Tensor, Callable[[Tensor], Any] | None]:
    """A tensor, and how to turn the result back into the kind that came in (`None` for tensors)."""
    if isinstance(x, Tensor):
        return x, None
    if isinstance(x, bool):
        return torch.tensor(x), lambda t: t.item()
    if isinstance(x, numbers.Number) or (hasattr(x, "item") and getattr(x, "ndim", None) == 0):
        value = x.item() if hasattr(x, "item") else x
        dtype = torch.complex128 if isinstance(value, complex) else torch.float64
        return torch.tensor(value, dtype=None if isinstance(value, (int, bool)) else dtype), lambda t: t.item()
    if type(x).__module__ == "numpy":
        return torch.from_numpy(x), lambda t: t.numpy()
    raise DistifyError(
        f"a {type(x).__name__} can't be reduced over ranks: pass a number, a tensor or a NumPy array; "
        "for lists and other objects use runtime.gather(x)."
    )


def _mean_by_rows(x: Tensor, batch: Batch) -> Tensor:
    return _weighted(x, batch.share, lambda w: (w.mean_weight(batch), w.uses_mean))


def _weighted(
    x: Tensor, weight: float, in_window: Callable[[Window], tuple[float, Callable[[], None] | None]]
) -> Tensor:
    """Sum over ranks of `weight * x`.

    Args:
        x, weight: this rank's.
        in_window: the factor that an accumulation window adds to the gradient, and what the backward reports to it.
    """
    operand, value = _total(x, weight)
    if operand is None:
        return value
    assert state.windows is not None
    window = state.windows.active()
    if window is None:
        return attach(operand, value, weight)
    factor, used = in_window(window)
    return attach(operand, value, weight * factor, used)


def _total(x: Tensor, weight: float) -> tuple[Tensor | None, Tensor]:
    """The operand if a gradient flows on any rank, and the sum over ranks of `weight * x`, detached.

    The sum has the type in which it was added up, where there is an operand: `attach` gives it that of `x`.
    """
    dtype = accumulator(x)
    out = x.dtype if dtype != torch.int64 else torch.int64
    if state.world_size == 1 or not wants_gradient(x):
        total = _weigh(x.detach().to(dtype, copy=True, memory_format=torch.contiguous_format), weight)
        if state.world_size > 1:
            all_reduce(_real(total))
        return (x if x.requires_grad and torch.is_grad_enabled() else None), total.to(out)
    size = x.numel() * (2 if dtype.is_complex else 1)
    flat = torch.full((size + 1,), float(x.requires_grad), dtype=dtype.to_real(), device=x.device)
    total = _front(flat, size, x, dtype)
    _weigh(total.copy_(x.detach()), weight)
    all_reduce(flat)
    operand = leaf_if(x, flat[-1] if not x.requires_grad else 1.0)
    return operand, total if operand is not None else total.to(out, copy=True)


def _front(flat: Tensor, size: int, like: Tensor, dtype: torch.dtype) -> Tensor:
    """The first elements of a flat real buffer, in the shape of a tensor and in this type."""
    if like.dim() == 0 and not dtype.is_complex:
        return flat.select(0, 0)
    return torch.view_as_complex(flat[:size].view(*like.shape, 2)) if dtype.is_complex else flat[:size].view(like.shape)


def _weigh(x: Tensor, weight: float) -> Tensor:
    """Multiply in place; what weighs nothing is zero, NaN or not."""
    return x if weight == 1.0 else x.zero_() if weight == 0.0 else x.mul_(weight)


def flag(x: Tensor, like: Tensor) -> Tensor:
    return torch.full((1,), float(x.requires_grad), dtype=_real(like).dtype, device=x.device)


def _real(x: Tensor) -> Tensor:
    return torch.view_as_real(x) if x.is_complex() else x


def _as(flat: Tensor, like: Tensor) -> Tensor:
    """The flat real buffer in shape and type of `like`."""
    return torch.view_as_complex(flat.reshape(*like.shape, 2)) if like.is_complex() else flat.reshape(like.shape)


def _mean_by(x: Tensor, by: Any, batch: Batch) -> Tensor:
    """Mean weighted by each rank's divisor; value and divisor travel in one buffer."""
    if isinstance(by, Tensor) and by.requires_grad and torch.is_grad_enabled():
        by, weight = by.reshape(()), float(not batch.filler)
        x = torch.where(by != 0, x, torch.zeros_like(x))  # 0/0 of an empty slice is no NaN
        return _weighted(x * by, weight, lambda w: (1.0, None)) / _weighted(by, weight, lambda w: (1.0, None))
    dtype = accumulator(x)
    local = _real(x.detach().to(dtype))
    divisor = by.detach() if isinstance(by, Tensor) else torch.full((), by, dtype=local.dtype, device=x.device)
    divisor = divisor.to(x.device, local.dtype).reshape(())
    if batch.filler:
        divisor = torch.zeros_like(divisor)
    zeros, empty = torch.zeros_like(local), divisor == 0
    part = torch.where(empty, zeros, local * divisor)  # 0/0 of an empty slice is no NaN
    bare = zeros if batch.filler else torch.where(empty, local, zeros)
    flat = torch.cat([part.reshape(-1), bare.reshape(-1), divisor.reshape(1), flag(x, x.detach().to(dtype))])
    if state.world_size > 1:
        all_reduce(flat)
    whole, size = flat[-2], local.numel()
    real = len([rows for rows in batch.counts if rows > 0])
    # Where nothing counts on any rank, the original's own formula met an empty batch, as each rank's did.
    found = torch.where(whole == 0, flat[size : 2 * size] / real, flat[:size] / whole)
    value = _as(found, x.detach().to(dtype)).to(x.dtype)
    if not wants_gradient(x):
        return value
    operand = leaf_if(x, flat[-1] if not x.requires_grad else 1.0)
    if operand is None:
        return value
    assert state.windows is not None
    window = state.windows.active()
    if window is None:
        alone = torch.full_like(whole, 0.0 if batch.filler else 1.0 / real)
        return attach(operand, value, torch.where(whole == 0, alone, divisor / whole))
    reference, used = window.reference(whole)
    return attach(operand, value, divisor / reference, used)
