"""DeepSpeed's `F.linear` of ZeRO 3, which lets go of gathered weights after a forward, made to do what torch's does.

Under autocast DeepSpeed's keeps its input as it came, mostly in fp32, and converts it again in the backward; torch's
keeps what was converted. And it adds a bias apart from the product unless there is one row per sample. Where input,
weight and bias are of one type a function of our own does it all in one node of the graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

CONVERTED = (torch.float32, torch.float16, torch.bfloat16)


def sharpen() -> None:
    """Put ours around DeepSpeed's, which replaces `F.linear` when a model is cut; once for a process."""
    theirs: Callable[..., Tensor] = import_module("deepspeed.runtime.zero.linear").zero3_linear_wrap
    if F.linear is theirs:
        F.linear = functools.wraps(theirs)(functools.partial(linear, theirs))


def linear(theirs: Callable[..., Tensor], input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear` by DeepSpeed's, or ours.

    Args:
        theirs: DeepSpeed's.
        input, weight, bias: as in torch.
    """
    kind = input.device.type
    wanted = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    if wanted is not None and input.dtype in CONVERTED and input.dtype is not wanted:
        input = input.to(wanted)
    if bias is None or input.dim() < 2:
        return theirs(input, weight, bias)
    alike = input.dtype is weight.dtype is bias.dtype and (wanted is None or input.dtype is wanted)
    if alike and not torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active():
        return _Linear.apply(input, weight, bias)  # type: ignore[no-any-return, no-untyped-call]
    if input.dim() == 2:
        return theirs(input, weight, bias)
    flat = theirs(input.flatten(0, -2), weight, bias)
    return flat.view(*input.shape[:-1], flat.size(-1))


class _Linear(torch.autograd.Function):
    """With a bias, of at least two dimensions, all of one type."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(input, weight)
        if input.dim() == 2:
            return torch.addmm(bias, input, weight.t())
        flat = torch.addmm(bias, input.flatten(0, -2), weight.t())
        return flat.view(*input.shape[:-1], flat.size(-1))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        kind = grad.device.type
        if torch.is_autocast_enabled(kind):  # a backward inside of it computes in the types of the forward all the same
            with torch.autocast(kind, enabled=False):
                return _gradients(ctx, grad)
        return _gradients(ctx, grad)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    input, weight = ctx.saved_tensors
    absent = getattr(getattr(weight, "ds_status", None), "name", None) == "NOT_AVAILABLE"
    if absent:
        weight.all_gather()
    try:
        flat = grad.flatten(0, -2) if grad.dim() > 2 else grad
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad
        to_input = flat.matmul(weight) if needs_input else None
        to_weight = flat.t().matmul(input.flatten(0, -2) if input.dim() > 2 else input) if needs_weight else None
        to_bias = flat.sum(0) if needs_bias else None
        return to_input if to_input is None else to_input.view(input.shape), to_weight, to_bias
    finally:
        if absent:
            weight.partition()
