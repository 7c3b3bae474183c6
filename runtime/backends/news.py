"""Tensors made like a parameter that lies in parts: `weight.new_zeros(1, rows, 8)` for a hidden state is no part."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

NAMES = ("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")


def plain_news() -> None:
    """From now on `new_zeros` and its like give plain tensors of the parameter's dtype on its device."""
    for name in NAMES:
        setattr(DTensor, name, _plain(name))


def _plain(name: str) -> Any:
    def new(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        like = torch.empty(0, dtype=self.dtype, device=self.device)
        made: Tensor = getattr(like, name)(*args, **kwargs)
        return made

    new.__name__ = name
    return new
