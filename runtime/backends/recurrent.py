"""Recurrent layers whose weights are gathered for each forward: cuDNN must not move them.

`nn.RNNBase` calls `flatten_parameters` when a forward meets other parameter objects than the last one, and on CUDA that
points the parameters at a new buffer of its own. Gathered parameters would stay at their first values from then on,
without a message.
"""

from __future__ import annotations

from weakref import WeakSet

from torch import nn

from ..state import state

_flatten = nn.RNNBase.flatten_parameters


def keep_in_place(root: nn.Module) -> None:
    """From now on the weights of a model's recurrent layers stay where the backend put them."""
    kept: WeakSet[nn.Module] = state.extra.setdefault("recurrent", WeakSet())
    kept.update(module for module in root.modules() if isinstance(module, nn.RNNBase))
    nn.RNNBase.flatten_parameters = _flatten_others  # type: ignore[method-assign, assignment]


def _flatten_others(module: nn.RNNBase) -> None:
    if module not in state.extra.get("recurrent", ()):
        _flatten(module)
