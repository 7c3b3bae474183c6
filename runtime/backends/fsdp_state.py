"""State of modules and optimizers whose tensors FSDP2 cut into parts: whole, in pieces, and back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from ..batchnorm import share_statistics
from .pieces import of_rows
from .sharded import local, whole, wrap_like
from .whole_state import (
    gather_all,
    load_module,
    load_optimizer,
    module_state,
    optimizer_state,
    pieces_of,
    sources_of,
    whole_copy,
    whole_on_host,
)


class PartedState:
    """The part of the protocol that reads and loads state which lies in parts."""

    def state_dict(self, obj: Any, host: bool = True) -> dict[str, Any]:
        """A snapshot in the original's form, whole, on all ranks."""
        if isinstance(obj, nn.Module) and not any(isinstance(p, DTensor) for p in obj.parameters()):
            share_statistics(obj)
            return obj.state_dict()
        if isinstance(obj, nn.Module):
            return module_state(obj, whole_on_host if host else whole_copy)
        if isinstance(obj, Optimizer):
            return optimizer_state(obj)
        found: dict[str, Any] = gather_all(obj.state_dict())
        return found

    def load_state_dict(self, obj: Any, state: dict[str, Any], **options: Any) -> Any:
        """Load whole tensors, or parts."""
        if isinstance(obj, nn.Module):
            return load_module(obj, state, **options)
        if isinstance(obj, Optimizer):
            return load_optimizer(obj, state)
        return obj.load_state_dict(state, **options)

    def in_parts(self, obj: Any) -> dict[str, Any]:
        """Sharded tensors as pieces, which share their memory."""
        if isinstance(obj, nn.Module):
            share_statistics(obj)
        found: dict[str, Any] = pieces_of(obj.state_dict())
        return found

    def room(self, optimizer: Optimizer, parameter: Tensor, shape: torch.Size, dtype: torch.dtype) -> Any:
        """A part for state that has the shape of a parameter which is cut."""
        if not isinstance(parameter, DTensor) or shape != parameter.shape:
            return None
        return of_rows(wrap_like(torch.empty_like(local(parameter), dtype=dtype), parameter))

    def load_parts(self, obj: Any, state: dict[str, Any]) -> None:
        """Load sharded tensors."""
        self.load_state_dict(obj, sources_of(state))

    def whole(self, tensor: Tensor) -> Tensor:
        """A new tensor with the whole values; a collective."""
        return whole(tensor).clone()
