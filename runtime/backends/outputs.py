"""What a forward returns: its tensors, and gradients of such as do not count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..collectives import void


def tensors(value: Any, depth: int = 0) -> Iterator[Tensor]:
    """Tensors with a history in what a forward returned: containers, dataclasses, plain objects."""
    if isinstance(value, Tensor):
        if value.requires_grad and value.grad_fn is not None:
            yield value
        return
    if depth > 8 or isinstance(value, (str, bytes, int, float, nn.Module, type)):
        return
    if isinstance(value, dict):
        for item in value.values():
            yield from tensors(item, depth + 1)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            yield from tensors(item, depth + 1)
    elif hasattr(value, "__dict__") and not callable(value):
        for item in vars(value).values():
            yield from tensors(item, depth + 1)


def spare_void(module: nn.Module, args: Any, output: Any) -> None:
    """Forward hook: the gradient of what does not count on this rank is zero, NaN or not (0/0 of an empty slice)."""
    if torch.is_grad_enabled():
        for x in tensors(output):
            x.register_hook(zero_if_void)  # type: ignore[no-untyped-call]


def zero_if_void(grad: Tensor) -> Tensor | None:
    """Hook of an output."""
    return torch.zeros_like(grad) if void() else None
