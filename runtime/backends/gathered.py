"""Whole parameters outside of a forward, for regularisers and norms: gathered, and differentiable once.

The gradient that arrives at a whole parameter is put aside until the backward is over and averaged over ranks then,
in one order on all of them: added in the middle of the backward it would race with the reductions of the parts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..collectives import accumulator, all_reduce, own
from ..state import state


class Pending:
    """Gradients of whole parameters that wait for the end of the backward."""

    def __init__(self) -> None:
        self.grads: dict[Tensor, Tensor] = {}
        self.order: dict[Tensor, int] = {}

    def add(self, parameter: Tensor, grad: Tensor) -> None:
        """Put a gradient aside."""
        held = self.grads.get(parameter)
        self.grads[parameter] = grad if held is None else held + grad

    def drop(self, parameter: Tensor) -> None:
        """Forget the gradient, as `zero_grad` does."""
        self.grads.pop(parameter, None)

    def reduce(self, add: Callable[[Tensor, Tensor], None]) -> None:
        """Average each gradient and hand it to `add(parameter, whole gradient)`; a collective."""
        for parameter in sorted(self.grads, key=self.order.__getitem__):
            grad = self.grads[parameter]
            total = all_reduce(grad.to(accumulator(grad), copy=True, memory_format=torch.contiguous_format))
            add(parameter, (total / state.world_size).to(grad.dtype))
        self.grads.clear()


def gathered(parameter: Tensor, value: Tensor, pending: Pending) -> Tensor:
    """`value`, the whole of `parameter`, with a gradient that goes to `pending`."""
    if not (parameter.requires_grad and torch.is_grad_enabled()):
        return value
    pending.order.setdefault(parameter, len(pending.order))
    anchor = own(torch.empty(0, device=value.device, requires_grad=True))  # the parameter's own hooks stay out of it
    receive = functools.partial(pending.add, parameter)
    return _Gathered.apply(anchor, value, receive)  # type: ignore[no-any-return, no-untyped-call]


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, value: Tensor, receive: Callable[[Tensor], None]) -> Tensor:
        ctx.receive = receive
        return value.view_as(value)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None]:
        ctx.receive(grad.detach())
        return None, None, None
