"""DeepSpeed's `F.linear` of ZeRO 3, which lets go of gathered weights after a forward, made to do what torch's does.

Under autocast DeepSpeed's keeps its input as it came, mostly in fp32, and converts it again in the backward; torch's
keeps what was converted. And it adds a bias apart from the product unless there is one row per sample.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module

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
    """`F.linear` by DeepSpeed's.

    Args:
        theirs: DeepSpeed's.
        input, weight, bias: as in torch.
    """
    kind = input.device.type
    if torch.is_autocast_enabled(kind) and input.dtype in CONVERTED:
        input = input.to(torch.get_autocast_dtype(kind))
    if bias is None or input.dim() < 3:
        return theirs(input, weight, bias)
    flat = theirs(input.flatten(0, -2), weight, bias)
    return flat.view(*input.shape[:-1], flat.size(-1))
