"""Which parameters got a gradient on any rank, without a wait in the usual case.

All ranks take part each time, since each may be one that doesn't know. But one that used every parameter knows the
answer, whatever the others say: it sends its part and goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..lost import reach
from ..state import state


class Used:
    """The question, once for each step.

    Args:
        parameters: in an order that is the same on all ranks.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.order = list(parameters)
        self.all = torch.ones(len(self.order), dtype=torch.uint8, device=_device())
        self.sent: Any = None

    def agree(self, mine: Set[Tensor]) -> set[Tensor]:
        """The parameters that any rank used; a collective.

        Args:
            mine: those that this rank used.
        """
        if self.sent is not None:
            reach(self.sent.wait)  # of the step before: has long been there
            self.sent = None
        if all(p in mine for p in self.order):
            # Sent from one buffer each time: the largest of ones and anything is one, so it never changes.
            self.sent = reach(dist.all_reduce, self.all, dist.ReduceOp.MAX, group=state.reduce_group, async_op=True)
            return set(self.order)
        flags = torch.tensor([p in mine for p in self.order], dtype=torch.uint8, device=self.all.device)
        reach(dist.all_reduce, flags, dist.ReduceOp.MAX, group=state.reduce_group)
        return {p for p, used in zip(self.order, flags.tolist(), strict=True) if used}


def _device() -> torch.device | None:
    """Where small values are exchanged."""
    return torch.device("cpu") if "gloo" in dist.get_backend_config(state.reduce_group) else state.device
