"""What `runtime.grad` returns: gradients of an inner backward, settled over the ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..collectives import all_reduce, average, begin_backward
from ..state import state
from .whole_leaves import whole_on_all


def inner_grad(
    outputs: Any, inputs: Sequence[Tensor], trained: Callable[[Tensor], bool], **options: Any
) -> list[Tensor | None]:
    """`torch.autograd.grad` with the convention of the ddp backend.

    Args:
        outputs: global values, or this rank's rows.
        inputs: parameters as the graph holds them, or slices.
        trained: whether an input is a parameter of a prepared module: its gradient is averaged over ranks.
        options: of `torch.autograd.grad`.
    """
    state.extra["reduced"] = False
    begin_backward()  # what the backward before met says nothing about this one
    found: list[Tensor | None] = list(torch.autograd.grad(outputs, inputs, **options))
    reduced = state.extra.pop("reduced")
    others = [k for k, x in enumerate(inputs) if reduced and found[k] is not None and not trained(x)]
    whole = dict(zip(others, whole_on_all([inputs[k] for k in others]), strict=True))
    for k, (x, grad) in enumerate(zip(inputs, found, strict=True)):
        if trained(x):
            used = grad is not None
            if options.get("allow_unused"):
                used = bool(all_reduce(torch.tensor(float(used), device=x.device)).item())
            found[k] = average(torch.zeros_like(x) if grad is None else grad) if used else None
        elif grad is not None and k in whole:
            found[k] = average(grad) if whole[k] else grad / state.world_size
    return found
