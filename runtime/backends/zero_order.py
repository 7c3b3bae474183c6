"""The order in which ZeRO 2 takes gradients into its buckets: the same on all ranks.

DeepSpeed puts each gradient behind the one that was complete before it, and that order can differ by rank: a recurrent
layer over packed sequences of one step hands its gradients over in another order than over two. Then ranks add one
parameter's gradient to another's, without a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class Arrivals:
    """Holds back a gradient that is complete until those before it in a fixed order are.

    Args:
        zero: DeepSpeed's optimizer of stage 2; its `process_gradients` is replaced.
        names: its parameters as their modules list them.
    """

    def __init__(self, zero: Any, names: Sequence[Tensor]) -> None:
        at = {p: k for k, p in enumerate(names)}
        self.order: list[tuple[Tensor, int]] = [(p, k) for k, group in enumerate(zero.bit16_groups) for p in group]
        # About as they come; groups of an optimizer don't follow that order (weights with decay, then the rest).
        self.order.sort(key=lambda item: -at[item[0]])
        self.take, zero.process_gradients = zero.process_gradients, self.arrive
        self.arrived: set[Tensor] = set()
        self.taken = 0

    def arrive(self, p: Tensor, group: int) -> None:
        """A gradient is complete."""
        self.arrived.add(p)
        while self.taken < len(self.order):
            first = self.order[self.taken][0]
            if first.requires_grad and first not in self.arrived:
                return
            self._take_next()

    def flush(self) -> None:
        """The backward has ended: what is missing here may be there on another rank, so zeros take its place."""
        if not self.arrived:
            return
        for p, _ in self.order[self.taken :]:
            if p.requires_grad and p not in self.arrived and p.grad is None:
                p.grad = torch.zeros_like(p)
        while self.taken < len(self.order):
            self._take_next()
        self.arrived.clear()
        self.taken = 0

    def _take_next(self) -> None:
        p, group = self.order[self.taken]
        self.taken += 1
        if p.requires_grad:
            self.take(p, group)
