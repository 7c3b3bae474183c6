"""An optimizer step on this rank's parts of parameters, for optimizers that treat each element by itself.

DTensor dispatch in `step` costs FSDP2 a third of its speed on small models. The parts are plain tensors that share
memory with the sharded parameters; during the step they stand in the optimizer's groups and state, after it the
sharded parameters stand there again, with state that shares memory with the parts' state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from .elementwise import state_like
from .sharded import local, wrap_like

State = dict[str, Any]


class LocalStep:
    """Steps one optimizer on local parts.

    Args:
        optimizer: element-wise; its groups hold sharded and whole parameters.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.parts: dict[Tensor, nn.Parameter] = {}
        self.states: dict[Tensor, State] = {}  # by parameter: the part's state
        self.raw: dict[Tensor, State] = {}  # by parameter: the same, as it was when it was last shown
        self.shown: dict[Tensor, State] = {}  # by parameter: what the optimizer shows of it between steps

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; returns what the closure returned."""
        result = None
        if closure is not None:  # these optimizers evaluate it once, before they update
            with torch.enable_grad():
                result = closure()
        optimizer = self.optimizer
        groups = [group["params"] for group in optimizer.param_groups]
        state = optimizer.state
        inner: defaultdict[Tensor, State] = defaultdict(dict)
        parts = [[self._part(p) for p in group] for group in groups]
        for group, cut in zip(groups, parts, strict=True):
            for p, part in zip(group, cut, strict=True):
                if p in state:
                    inner[part] = self._open(p, state[p], part)
        try:
            optimizer.state = inner
            for group, cut in zip(optimizer.param_groups, parts, strict=True):
                group["params"] = cut
            optimizer.step()
        finally:
            optimizer.state = state
            for group, held in zip(optimizer.param_groups, groups, strict=True):
                group["params"] = held
        for group, cut in zip(groups, parts, strict=True):
            for p, part in zip(group, cut, strict=True):
                if part in inner:
                    self._show(p, part, inner[part])
                part.grad = None
        return result

    def _part(self, p: Tensor) -> nn.Parameter:
        """The part of a parameter, with its gradient."""
        if not isinstance(p, DTensor):
            whole = self.parts.get(p)
            if whole is None or whole.data_ptr() != p.data_ptr():
                whole = self.parts[p] = nn.Parameter(p.data, p.requires_grad)
            whole.grad = p.grad
            return whole
        part = self.parts.get(p)
        mine = local(p)
        if part is None or part.data_ptr() != mine.data_ptr() or part.shape != mine.shape:
            part = self.parts[p] = nn.Parameter(mine.detach(), p.requires_grad)
        part.grad = None if p.grad is None else local(p.grad)
        return part

    def _open(self, p: Tensor, shown: State, part: Tensor) -> State:
        """The part's state: that of the last step, unless something else was loaded since."""
        known, kept = self.shown.get(p), self.states.get(p)
        same = known is not None and len(known) == len(shown)
        if kept is not None and same and all(shown.get(key, self) is value for key, value in (known or {}).items()):
            return kept
        return {key: local(value) if isinstance(value, DTensor) else value for key, value in shown.items()}

    def _show(self, p: Tensor, part: Tensor, inner: State) -> None:
        """Put the part's state under the parameter, as sharded tensors where it has one value per element.

        What is there since the last step stays: making a sharded tensor costs more than the step of a small parameter.
        """
        shown, raw = self.optimizer.state[p], self.raw.get(p)
        if raw is None or self.states.get(p) is not inner or raw.keys() != inner.keys():
            shown.clear()
            raw = self.raw[p] = {}
            self.states[p], self.shown[p] = inner, {}
        for key, value in inner.items():
            if raw.get(key, self) is not value:
                sharded = isinstance(p, DTensor) and state_like(value, part.shape)
                shown[key] = wrap_like(value, p) if sharded else value  # type: ignore[arg-type]
                raw[key], self.shown[p][key] = value, shown[key]
