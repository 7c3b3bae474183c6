"""What a forward returns: its tensors, and gradients of such as do not count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def watch_outputs(module: nn.Module, given: nn.Module) -> None:
    """Let gradients of a module's outputs be zero where they do not count.

    Outside of what `torch.compile` makes of it: a hook inside would end its graph.

    Args:
        module: as it computes.
        given: as the user calls it, what `torch.compile` wrapped around it if it did.
    """
    compiled: Callable[..., Any] | None = getattr(module, "_compiled_call_impl", None)
    if compiled is not None:

        def call(*args: Any, **kwargs: Any) -> Any:
            output = compiled(*args, **kwargs)
            spare_void(module, args, output)
            return output

        module._compiled_call_impl = call
    elif given is not module:
        given.register_forward_hook(spare_void)
        module.register_forward_hook(_spare_uncompiled)
    else:
        module.register_forward_hook(spare_void)


def _spare_uncompiled(module: nn.Module, args: Any, output: Any) -> None:
    """Forward hook of a module that is called by itself as well as compiled."""
    if not torch.compiler.is_compiling():
        spare_void(module, args, output)


def spare_void(module: nn.Module, args: Any, output: Any) -> None:
    """Forward hook: the gradient of what does not count on this rank is zero, NaN or not (0/0 of an empty slice)."""
    if torch.is_grad_enabled():
        for x in tensors(output):
            x.register_hook(zero_if_void)  # type: ignore[no-untyped-call]


def zero_if_void(grad: Tensor) -> Tensor | None:
    """Hook of an output."""
    return torch.zeros_like(grad) if void() else None
