"""Loading a state dict into a module whose parameters can't be written in place."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def load_through_meta(
    module: nn.Module, state: Mapping[str, Any], shapes: Mapping[Tensor, torch.Size], **options: Any
) -> tuple[Any, dict[Tensor, Tensor]]:
    """`module.load_state_dict` with stand-ins of the right shapes for some parameters.

    Keys and shapes are checked as in torch, buffers and other parameters are loaded.

    Args:
        module: keeps its parameters.
        state: whole tensors.
        shapes: original shapes of the parameters that get stand-ins.
        options: of `load_state_dict`.

    Returns:
        What `load_state_dict` returned, and the values that the parameters with stand-ins must get.
    """
    owned = [(m, name, p) for m in module.modules() for name, p in dict.items(m._parameters) if p is not None]
    held = [(m, name, p) for m, name, p in owned if p in shapes]
    names = dict(module.named_parameters(remove_duplicate=False))
    standins = {p: nn.Parameter(torch.empty(shapes[p], device="meta", dtype=p.dtype), False) for _, _, p in held}
    options.pop("assign", None)
    try:
        for m, name, p in held:
            dict.__setitem__(m._parameters, name, standins[p])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is a no-op.*")
            result = module.load_state_dict(state, **options)
    finally:
        for m, name, p in held:
            dict.__setitem__(m._parameters, name, p)
    found = {p: state.get(key) for key, p in names.items() if p in shapes}
    values: dict[Tensor, Tensor] = {p: value for p, value in found.items() if isinstance(value, Tensor)}
    return result, values
