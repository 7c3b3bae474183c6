"""State dicts in the original's form, of modules and optimizers whose tensors lie in parts, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from ..batchnorm import share_statistics
from .base import group_parameters
from .elementwise import state_like
from .pieces import Piece, of_rows
from .sharded import shard_like, whole


def whole_on_host(x: Tensor) -> Tensor:
    """A new tensor with the whole of `x`: on the CPU if it was gathered, else where it was."""
    return whole_copy(x).cpu() if isinstance(x, DTensor) else whole_copy(x)


def whole_copy(x: Tensor) -> Tensor:
    """A new tensor with the whole of `x`, on its device."""
    return whole(x) if isinstance(x, DTensor) else x.detach().clone()


def gather_all(value: Any) -> Any:
    """A nested structure with each sharded tensor whole, other tensors copied; a collective."""
    if isinstance(value, Tensor):
        return whole_on_host(value)
    return _mapped(value, gather_all)


def pieces_of(value: Any) -> Any:
    """A nested structure with a piece in the place of each sharded tensor."""
    if isinstance(value, DTensor):
        return of_rows(value)
    return _mapped(value, pieces_of)


def sources_of(value: Any) -> Any:
    """A nested structure with what its pieces were made of in their place."""
    if isinstance(value, Piece):
        return value.source
    return _mapped(value, sources_of)


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        made = type(value)() if type(value) is not dict else {}
        made.update({key: function(item) for key, item in value.items()})
        _keep_versions(value, made)
        return made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(function(item) for item in value))
    return type(value)(function(item) for item in value) if type(value) in (list, tuple) else value


def _keep_versions(source: Any, made: Any) -> None:
    """Copy the versions of the modules that torch attaches to a state dict."""
    if hasattr(source, "_metadata"):
        made._metadata = source._metadata


def module_state(module: nn.Module, value: Callable[[Tensor], Tensor] = whole_on_host) -> dict[str, Any]:
    """A snapshot of the state of a module: the original's keys, shapes and dtypes; tied parameters share memory.

    Args:
        module: prepared, or part of a prepared one.
        value: a new whole tensor of a parameter, a collective.
    """
    share_statistics(module)
    found = module.state_dict()
    parameters = dict(module.named_parameters(remove_duplicate=False))
    made: dict[int, Tensor] = {}
    result = type(found)() if type(found) is not dict else {}
    for key, item in found.items():
        p = parameters.get(key)
        if p is None or not isinstance(item, Tensor):
            result[key] = gather_all(item)
            continue
        if id(p) not in made:
            made[id(p)] = value(p)
        result[key] = made[id(p)]
    _keep_versions(found, result)
    return result


def load_module(module: nn.Module, state: dict[str, Any], **options: Any) -> Any:
    """`module.load_state_dict`, from whole tensors or parts; returns what it returns."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    cut = type(state)() if type(state) is not dict else {}
    for key, value in state.items():
        p = parameters.get(key)
        fits = isinstance(p, DTensor) and isinstance(value, Tensor) and not isinstance(value, DTensor)
        cut[key] = shard_like(value.to(p.dtype), p) if fits and value.shape == p.shape else value  # type: ignore[union-attr, arg-type]
    _keep_versions(state, cut)
    options.pop("assign", None)  # parts keep their identity: values are copied
    return module.load_state_dict(cut, **options)


def optimizer_state(optimizer: Optimizer) -> dict[str, Any]:
    """A snapshot of an optimizer's state, as the original's `state_dict` returns it, with whole tensors."""
    found: dict[str, Any] = gather_all(optimizer.state_dict())
    return found


def load_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """`optimizer.load_state_dict`, from whole tensors or parts."""
    parameters = group_parameters(optimizer)
    inner: dict[Any, Any] = {}
    for key, found in state["state"].items():
        p = parameters[key] if isinstance(key, int) and key < len(parameters) else None
        if isinstance(p, DTensor) and isinstance(found, dict):
            found = {name: _cut(value, p) for name, value in found.items()}
        inner[key] = found
    optimizer.load_state_dict({**state, "state": inner})


def _cut(value: Any, like: DTensor) -> Any:
    if isinstance(value, torch.Tensor) and not isinstance(value, DTensor) and state_like(value, like.shape):
        return shard_like(value, like)
    return value
