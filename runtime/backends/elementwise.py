"""Which optimizers may work on parts of parameters: those that treat each element by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

ELEMENTWISE = tuple(
    getattr(torch.optim, name)
    for name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "NAdam", "RAdam", "Adamax", "Rprop", "ASGD")
)


def elementwise(optimizer: Optimizer) -> bool:
    """Whether the update of an element depends on nothing but its own history.

    True for torch's optimizers that do so, by exact class, and for classes that say it by `elementwise = True`.
    """
    return type(optimizer) in ELEMENTWISE or bool(getattr(type(optimizer), "elementwise", False))


def refusal(optimizer: Optimizer, backend: str) -> str | None:
    """Why this optimizer can't be used where parameters are cut into parts; `None` if it can."""
    name = type(optimizer).__name__
    if isinstance(optimizer, torch.optim.LBFGS):
        return (
            f"{name} searches along one vector of all parameters and keeps its own list of them, which {backend} cuts "
            "into parts. Use backend='ddp', or another optimizer."
        )
    inner = next((key for key, value in _held(optimizer) if isinstance(value, Optimizer)), None)
    if inner is not None:
        return (
            f"{name} wraps another optimizer (in its attribute {inner!r}), whose parameters {backend} would replace "
            "unseen. Use backend='ddp', or prepare the inner optimizer only."
        )
    owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
    kept = next((key for key, value in _held(optimizer) if isinstance(value, Tensor) and id(value) in owned), None)
    if kept is not None:
        return (
            f"{name} keeps parameters outside of param_groups (in its attribute {kept!r}), which {backend} replaces. "
            "Use backend='ddp'."
        )
    if not elementwise(optimizer):
        return (
            f"{name} is not known to update each element by itself, and {backend} steps on parts of parameters: norms "
            f"and means over a parameter would come out wrong. If it is element-wise, say so in its class, "
            f"`{name}.elementwise = True`, before runtime.prepare(); else use backend='ddp'."
        )
    return None


def _held(optimizer: Optimizer) -> Iterator[tuple[str, Any]]:
    """What the optimizer's attributes hold, containers opened one level, state and groups left out."""
    for key, value in vars(optimizer).items():
        if key in ("param_groups", "state", "defaults"):
            continue
        yield key, value
        if isinstance(value, dict):
            value = [*value.keys(), *value.values()]
        if isinstance(value, (list, tuple, set)):
            for item in value:
                yield key, item


def state_like(value: Any, shape: torch.Size) -> bool:
    """Whether a piece of optimizer state has one value per element of the parameter."""
    return isinstance(value, Tensor) and value.dim() > 0 and value.shape == shape
