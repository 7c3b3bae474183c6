"""Sums over the batch that the script itself divides by a count, inside an accumulation window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .collectives import nothing
from .state import require, state
from .uncompiled import uncompiled


@uncompiled
def averaged(x: Any, by: Any = None) -> Any:
    """A sum over the global batch divided by a count of it, weighted in its accumulation window as a mean is.

    Sums of micro-batches add up over a window; divided by a count of the micro-batch each would weigh as much as the
    whole window should. The value stays what it is, and without a window its gradient does too.

    Args:
        x: the quotient, the same on all ranks: a number or a tensor.
        by: the count it was divided by, of the global batch: a number or 0-dim tensor; the batch's rows if not given.

    Returns:
        `x`; inside a window its gradient is multiplied by the micro-batch's part of what the window holds.

    Raises:
        NotInitialized: `init` has not run.
    """
    windows = require("averaged").windows
    assert windows is not None
    window = windows.active()
    if window is None or not isinstance(x, Tensor) or not x.requires_grad or not torch.is_grad_enabled():
        return x
    window.quotients = True
    if by is None:
        batch = window.plan()
        factor: float | Tensor = 1.0 if batch is None else window.mean_weight(batch)
        return _Scaled.apply(x, factor / window.size, window.uses_mean)  # type: ignore[no-untyped-call]
    total = by.detach().reshape(()) if isinstance(by, Tensor) else torch.full((), float(by), device=x.device)
    reference, used = window.reference(total)
    return _Scaled.apply(x, total / (window.size * reference), used)  # type: ignore[no-untyped-call]


class _Scaled(torch.autograd.Function):
    """The identity, whose gradient is multiplied."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float | Tensor, used: Callable[[], None]) -> Tensor:
        ctx.factor, ctx.used = factor, used
        return x.clone()  # not a view: users change losses in place

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None]:
        if ctx.used is not None:
            ctx.used()
            ctx.used = None
        factor = ctx.factor.item() if isinstance(ctx.factor, Tensor) and ctx.factor.is_cpu else ctx.factor
        # Where nothing was counted the quotient is 0/0: its gradient is cut off, as that of an empty slice is.
        empty = not isinstance(factor, Tensor) and factor == 0.0
        if empty:
            state.extra["arrived"] = state.extra.get("arrived", 0) + 1  # as a reduction's gradient that does not count
            return nothing(grad), None, None
        return (grad * factor).to(grad.dtype), None, None
