"""Largest and smallest values of the whole batch."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .collectives import accumulator, all_reduce, arriving, enroll, leaf_if, nothing, same_shape, wants_gradient
from .reduce import as_tensor, batch_of, flag
from .state import DistifyError, require, state
from .uncompiled import uncompiled


@uncompiled
def max(x: Any, of: Any = None) -> Any:
    """Largest over the global batch of what each rank found in its slice.

    Args:
        x: the maximum of this rank's slice: a number, or a tensor (0-dim, or elementwise over equal shapes).
        of: a tensor of the batch that `x` comes from, where more than one is in use.

    Returns:
        The same kind and dtype as `x`, equal on all ranks; the gradient goes to the ranks that hold it, evenly.

    Raises:
        BatchError: it can't be told which batch `x` belongs to.
    """
    return _extreme("max", x, of)


@uncompiled
def min(x: Any, of: Any = None) -> Any:
    """Smallest over the global batch of what each rank found in its slice; else as `max`."""
    return _extreme("min", x, of)


def _extreme(name: str, x: Any, of: Any) -> Any:
    run = require(name)
    if run.world_size == 1:
        return x
    value, back = as_tensor(x)
    batch = batch_of(run, name, of, value)
    same_shape(name, value)
    if value.is_complex():
        raise DistifyError(f"runtime.{name}(): complex numbers have no order")
    sign = 1 if name == "max" else -1
    found = _largest(value, sign, batch.filler)
    return found if back is None else back(found)


def _largest(x: Tensor, sign: int, filler: bool) -> Tensor:
    """Largest (sign 1) or smallest (sign -1) over ranks; NaN if a rank holds NaN, as in torch."""
    if not x.is_floating_point():
        wide = x.detach().to(torch.int64)
        least = torch.iinfo(torch.int64).min if sign > 0 else torch.iinfo(torch.int64).max
        flat = torch.full_like(wide, least) if filler else wide.clone(memory_format=torch.contiguous_format)
        return all_reduce(flat, dist.ReduceOp.MAX if sign > 0 else dist.ReduceOp.MIN).to(x.dtype)
    local = sign * x.detach().to(accumulator(x)).reshape(-1)
    absent = torch.full_like(local, -torch.inf)
    nan = torch.zeros_like(local) if filler else local.isnan().to(local.dtype)
    flat = torch.cat([absent if filler else torch.where(local.isnan(), absent, local), nan, flag(x, local)])
    all_reduce(flat, dist.ReduceOp.MAX)
    top, nan, graphs = flat[: x.numel()], flat[x.numel() : -1], flat[-1]
    value = (sign * torch.where(nan > 0, torch.full_like(top, torch.nan), top)).reshape(x.shape).to(x.dtype)
    operand = leaf_if(x, graphs if not x.requires_grad else 1.0) if wants_gradient(x) else None
    if operand is None:
        return value
    return _Extreme.apply(operand, value, filler, enroll())  # type: ignore[no-any-return, no-untyped-call]


class _Extreme(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor, filler: bool, serial: int) -> Tensor:
        ctx.serial, ctx.filler = serial, filler
        ctx.owns = torch.zeros_like(x, dtype=torch.bool) if filler else x == value
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None]:
        grad = arriving(grad, ctx.serial)
        mine = ctx.owns.to(torch.float32).contiguous()
        owners = all_reduce(mine.clone()).clamp_(min=1.0)
        if ctx.filler:
            return nothing(grad), None, None, None
        return grad * (state.world_size * mine / owners).to(grad.dtype), None, None, None
