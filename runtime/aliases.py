"""Memory of parameters that something else refers to: once parameters are cut into parts, it no longer follows them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from .backends.base import CUTTING
from .state import State
from .words import some


def warn(modules: Iterable[nn.Module], run: State) -> None:
    """Say on rank 0 which parameters were captured before `prepare` by their values, such as `p.data`.

    A captured parameter itself is noticed when it is used; what shares its memory only would go stale in silence.
    """
    assert run.backend is not None
    if run.rank != 0 or run.world_size == 1 or run.backend.name not in CUTTING:
        return
    for module in modules:
        names = captured(module)
        if names:
            sys.stderr.write(
                f"distify: something else refers to the memory of {some(names, 3)} of {type(module).__name__}, such as "
                f"a .data, .detach(), .numpy() or state_dict() from before runtime.prepare(). Under {run.backend.name} "
                "it keeps the values of now while the model trains: take it afterwards, runtime.state_dict(model) or "
                "runtime.full(parameter).\n"
            )


def captured(module: nn.Module) -> Sequence[str]:
    """Names of the trainable parameters whose memory has more users than the module's own tensors."""
    count: Any = getattr(torch._C, "_storage_Use_Count", None)
    if count is None:
        return []
    sole = torch.empty(1)
    beside = count(sole.untyped_storage()._cdata) - 1  # what asking adds
    tensors = {id(t): t for t in (*module.parameters(), *module.buffers()) if _has_storage(t)}
    users = Counter(t.untyped_storage()._cdata for t in tensors.values())
    found = []
    for name, p in module.named_parameters():
        if p.requires_grad and _has_storage(p):
            storage = p.untyped_storage()._cdata
            if count(storage) > users[storage] + beside:
                found.append(name)
    return found


def _has_storage(tensor: torch.Tensor) -> bool:
    return type(tensor) in (nn.Parameter, torch.Tensor) and tensor.layout == torch.strided and tensor.numel() > 0
