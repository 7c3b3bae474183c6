"""How many steps each optimizer made; fp16 skips some."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from torch.optim import Optimizer

from .overflow import Overflow
from .state import state


@dataclass
class Steps:
    """What each optimizer did, and what its schedulers have seen of it.

    Attributes:
        tried, taken: steps that were asked for and that happened.
        open: steps of which the host may not know yet whether they happened; they are not in `taken`.
        seen: for each scheduler the counts of its optimizer when it last moved.
        running: optimizer that `step` is stepping.
        sizes: parameters that each optimizer held when its step was last checked.
    """

    tried: WeakKeyDictionary[Optimizer, int] = field(default_factory=WeakKeyDictionary)
    taken: WeakKeyDictionary[Optimizer, int] = field(default_factory=WeakKeyDictionary)
    open: list[tuple[Optimizer, Overflow]] = field(default_factory=list)
    seen: WeakKeyDictionary[Any, tuple[int, int]] = field(default_factory=WeakKeyDictionary)
    running: Optimizer | None = None
    sizes: WeakKeyDictionary[Optimizer, int] = field(default_factory=WeakKeyDictionary)

    def settled(self, wait: bool = True) -> Steps:
        """These counts, `taken` with the steps that were open: all, or those that are known without a wait."""
        while self.open and (wait or self.open[0][1].known):
            optimizer, overflow = self.open.pop(0)
            self.taken[optimizer] = self.taken.get(optimizer, 0) + (not overflow)
        return self


def steps() -> Steps:
    """The counts of this run."""
    found: Steps | None = state.extra.get("steps")
    if found is None:
        found = state.extra["steps"] = Steps()
    return found
