"""An optimizer step on this rank's parts of parameters, for optimizers that treat each element by itself.

DTensor dispatch in `step` costs FSDP2 a third of its speed on small models. The parts are plain tensors that share
memory with the sharded parameters; during the step they stand in the optimizer's groups and state, after it the
sharded parameters stand there again, with state that shares memory with the parts' state.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from .elementwise import state_like
from .sharded import local, wrap_like

State = dict[str, Any]


class Slot:
    """A parameter's part, and the part's state, from one step to the next.

    Attributes:
        state: of the part.
        raw: the same, as it was when it was last shown.
        shown: what the optimizer shows of it between steps.
    """

    __slots__ = ("owner", "part", "raw", "sharded", "shown", "state")

    def __init__(self, owner: Tensor) -> None:
        self.owner = owner
        self.sharded = isinstance(owner, DTensor)
        self.part: nn.Parameter | None = None
        self.state: State | None = None
        self.raw: State = {}
        self.shown: State = {}

    def take(self) -> nn.Parameter:
        """The part, with its gradient."""
        owner, part = self.owner, self.part
        mine = local(owner) if self.sharded else owner
        if part is None or part.data_ptr() != mine.data_ptr() or part.shape != mine.shape:
            part = self.part = nn.Parameter(mine.detach(), owner.requires_grad)
        grad = owner.grad
        part.grad = local(grad) if self.sharded and grad is not None else grad
        return part

    def open(self, shown: State) -> State:
        """The part's state: that of the last step, unless something else was loaded since."""
        if self.state is not None and _same(shown, self.shown):
            return self.state
        return {key: local(value) if isinstance(value, DTensor) else value for key, value in shown.items()}

    def show(self, inner: State, shown: State) -> None:
        """Put the part's state under the parameter, as sharded tensors where it has one value per element.

        What is there since the last step stays: making a sharded tensor costs more than the step of a small parameter.
        """
        if self.state is inner and _same(inner, self.raw):
            return
        assert self.part is not None
        if self.state is not inner or self.raw.keys() != inner.keys():
            shown.clear()
            self.state, self.raw, self.shown = inner, {}, {}
        for key, value in inner.items():
            if self.raw.get(key, self) is not value:
                sharded = self.sharded and state_like(value, self.part.shape)
                shown[key] = wrap_like(value, self.owner) if sharded else value  # type: ignore[arg-type]
                self.raw[key], self.shown[key] = value, shown[key]


def _same(found: State, known: State) -> bool:
    """Whether both hold the same objects in the same order."""
    return found.keys() == known.keys() and all(map(operator.is_, found.values(), known.values()))


class LocalStep:
    """Steps one optimizer on local parts.

    Args:
        optimizer: element-wise; its groups hold sharded and whole parameters.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.known: dict[Tensor, Slot] = {}
        self.slots: list[list[Slot]] = []  # of the optimizer's groups, as they were in the last step

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; returns what the closure returned."""
        result = None
        if closure is not None:  # these optimizers evaluate it once, before they update
            with torch.enable_grad():
                result = closure()
        optimizer = self.optimizer
        groups = [group["params"] for group in optimizer.param_groups]
        slots = self._slots(groups)
        state = optimizer.state
        inner: defaultdict[Tensor, State] = defaultdict(dict)
        parts = [[slot.take() for slot in group] for group in slots]
        for slot in chain.from_iterable(slots):
            shown = state.get(slot.owner)
            if shown is not None:
                inner[slot.part] = slot.open(shown)  # type: ignore[index]
        try:
            optimizer.state = inner
            for group, cut in zip(optimizer.param_groups, parts, strict=True):
                group["params"] = cut
            optimizer.step()
        finally:
            optimizer.state = state
            for group, held in zip(optimizer.param_groups, groups, strict=True):
                group["params"] = held
        for slot in chain.from_iterable(slots):
            found = inner.get(slot.part)  # type: ignore[arg-type]
            if found is not None:
                slot.show(found, state[slot.owner])
            slot.part.grad = None  # type: ignore[union-attr]
        return result

    def _slots(self, groups: list[list[Tensor]]) -> list[list[Slot]]:
        """Those of the parameters of each group."""
        if list(map(len, groups)) != list(map(len, self.slots)) or not all(
            slot.owner is p
            for p, slot in zip(chain.from_iterable(groups), chain.from_iterable(self.slots), strict=True)
        ):
            for p in chain.from_iterable(groups):
                if p not in self.known:
                    self.known[p] = Slot(p)
            self.slots = [[self.known[p] for p in group] for group in groups]
        return self.slots
