"""LayerNorm and GroupNorm under autocast with weights of the lower precision: one node of the graph for each.

Autocast has them computed in fp32. It converts input, weight and bias by a node each, and keeps the input's fp32 copy
for the backward, twice as large as what came. Here the same kernels meet the same numbers inside of one node, which
keeps what came and converts it again when it is needed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..own import own
from .managed import stand_in

WIDENING = ("cuda",)  # devices whose autocast computes these layers in fp32
LOWER = (torch.bfloat16, torch.float16)
_to: Callable[[Tensor, torch.dtype], Tensor] = torch._C.TensorBase.to  # that of `Tensor` notes what it copies


def join_casts(root: nn.Module) -> None:
    """Let the layers of a model that are torch's own compute so.

    Args:
        root: its parameters are of a lower precision, or will be.
    """
    for module in root.modules():
        if "forward" in vars(module):
            continue
        if isinstance(module, nn.LayerNorm) and type(module).forward is nn.LayerNorm.forward:
            stand_in(module, "forward", _forward(module, _Layer, "normalized_shape"))
        if isinstance(module, nn.GroupNorm) and type(module).forward is nn.GroupNorm.forward:
            stand_in(module, "forward", _forward(module, _Group, "num_groups"))


def _forward(module: Any, node: Any, option: str) -> Callable[[Tensor], Tensor]:
    original: Callable[[Tensor], Tensor] = module.forward

    @functools.wraps(original)
    def forward(input: Tensor) -> Tensor:
        kind = input.device.type
        weight, bias = module.weight, module.bias
        if torch.compiler.is_compiling() or kind not in WIDENING or not torch.is_autocast_enabled(kind):
            return original(input)
        if type(input) is not Tensor or not _narrow(input, weight, bias) or torch._C._are_functorch_transforms_active():
            return original(input)
        made: Tensor = node.apply(input, weight, bias, getattr(module, option), module.eps)
        return made

    return forward


class _Norm(torch.autograd.Function):
    """What both have in common."""

    @staticmethod
    def plain(input: Tensor, weight: Any, bias: Any, option: Any, eps: float) -> Tensor:
        """torch's function."""
        raise NotImplementedError

    @staticmethod
    def values(input: Tensor, weight: Any, bias: Any, option: Any, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        """The result, and what the backward needs of it."""
        raise NotImplementedError

    @staticmethod
    def gradients(grad: Tensor, kept: Any, input: Tensor, weight: Any, bias: Any, option: Any, mask: Any) -> Any:
        """Of input, weight and bias."""
        raise NotImplementedError

    @classmethod
    def run(cls, ctx: Any, input: Tensor, weight: Any, bias: Any, option: Any, eps: float) -> Tensor:
        """The forward, in fp32."""
        wide = _wide(weight), _wide(bias)
        with torch.autocast(input.device.type, enabled=False):
            result, *kept = cls.values(_wide(input), *wide, option, eps)
        ctx.save_for_backward(input, weight, bias, *wide, *kept)  # weight and bias are small
        ctx.options = option, eps
        return result

    @classmethod
    def back(cls, ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """The backward, in fp32; gradients in the types of what they are of."""
        input, weight, bias, wide_weight, wide_bias, *kept = ctx.saved_tensors
        option, eps = ctx.options
        mask = list(ctx.needs_input_grad[:3])
        with torch.autocast(input.device.type, enabled=False):
            if torch.is_grad_enabled():  # to be differentiated again
                return cls._again(grad, (input, weight, bias), option, eps, mask)
            found = cls.gradients(grad, kept, _wide(input), wide_weight, wide_bias, option, mask)
        pairs = zip(found, (input, weight, bias), mask, strict=True)
        return (*(_to(g, x.dtype) if needed else None for g, x, needed in pairs), None, None)

    @classmethod
    def _again(cls, grad: Tensor, inputs: Any, option: Any, eps: float, mask: list[bool]) -> tuple[Any, ...]:
        input, weight, bias = (_wide(x) for x in inputs)
        result = cls.plain(input, weight, bias, option, eps)
        wanted = [x for x, needed in zip(inputs, mask, strict=True) if needed]
        with own():
            found = iter(torch.autograd.grad(result, wanted, grad, create_graph=True))
        return (*(next(found) if needed else None for needed in mask), None, None)


class _Layer(_Norm):
    @staticmethod
    def plain(input: Tensor, weight: Any, bias: Any, option: Any, eps: float) -> Tensor:
        return F.layer_norm(input, option, weight, bias, eps)

    @staticmethod
    def values(input: Tensor, weight: Any, bias: Any, option: Any, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        return torch.native_layer_norm(input, option, weight, bias, eps)

    @staticmethod
    def gradients(grad: Tensor, kept: Any, input: Tensor, weight: Any, bias: Any, option: Any, mask: Any) -> Any:
        return torch.ops.aten.native_layer_norm_backward(grad, input, option, *kept, weight, bias, mask)

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Any, bias: Any, option: Any, eps: float) -> Tensor:
        return _Layer.run(ctx, input, weight, bias, option, eps)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return _Layer.back(ctx, grad)


class _Group(_Norm):
    @staticmethod
    def plain(input: Tensor, weight: Any, bias: Any, option: Any, eps: float) -> Tensor:
        return F.group_norm(input, option, weight, bias, eps)

    @staticmethod
    def values(input: Tensor, weight: Any, bias: Any, option: Any, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        n, c, inner = _sizes(input)
        return torch.native_group_norm(input.contiguous(), weight, bias, n, c, inner, option, eps)

    @staticmethod
    def gradients(grad: Tensor, kept: Any, input: Tensor, weight: Any, bias: Any, option: Any, mask: Any) -> Any:
        sizes = _sizes(input)
        mean, inverse = kept
        return torch.ops.aten.native_group_norm_backward(
            grad.contiguous(), input.contiguous(), mean, inverse, weight, *sizes, option, mask
        )

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Any, bias: Any, option: Any, eps: float) -> Tensor:
        return _Group.run(ctx, input, weight, bias, option, eps)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return _Group.back(ctx, grad)


def _wide(tensor: Any) -> Any:
    """In fp32, as autocast makes it."""
    return tensor if tensor is None else _to(tensor, torch.float32)


def _narrow(*tensors: Tensor | None) -> bool:
    """Whether autocast would convert some of them, and can all."""
    types = {x.dtype for x in tensors if x is not None}
    return not types.isdisjoint(LOWER) and types <= {*LOWER, torch.float32}


def _sizes(input: Tensor) -> tuple[int, int, int]:
    """Samples, channels, elements of each channel."""
    return input.size(0), input.size(1), math.prod(input.shape[2:])
