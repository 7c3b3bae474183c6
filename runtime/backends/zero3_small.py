"""Small parameters of ZeRO 3, whole on each rank at all times: brought up to date by one collective after a step.

DeepSpeed gives them back before each step and gathers them after it, with a collective for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..lost import reach


class Small:
    """Parameters that stay where they are while their values change.

    Args:
        parameters: as DeepSpeed cuts them, all trained by one engine, of one type.
    """

    def __init__(self, parameters: Sequence[Any]) -> None:
        self.parameters = list(parameters)
        self.known: list[int] = []
        if not self.parameters:
            return
        first = self.parameters[0]
        sizes = [int(p.ds_tensor.ds_numel) for p in self.parameters]
        self.group, ranks = first.ds_process_group, int(first.ds_zero_partition_world_size)
        self.mine = torch.empty(sum(sizes), dtype=first.dtype, device=first.device)
        self.table = self.mine.new_empty(ranks * sum(sizes))
        self.places: list[tuple[int, int, int]] = []  # parameter, the first of its elements, where they stand
        self.sources: list[Tensor] = []
        at = 0
        for k, (p, size) in enumerate(zip(self.parameters, sizes, strict=True)):
            for rank in range(ranks):
                count = min(size, int(p.ds_numel) - rank * size)
                if count > 0:
                    self.places.append((k, rank * size, count))
                    self.sources.append(self.table.narrow(0, rank * sum(sizes) + at, count))
            at += size
        self.targets: list[Tensor] = []

    @property
    def whole(self) -> bool:
        """Whether all are there."""
        return all(p.ds_status.name == "AVAILABLE" for p in self.parameters)

    def refresh(self) -> None:
        """Bring them to the values of the parts; a collective, all must be whole."""
        if not self.parameters:
            return
        now = [p.data_ptr() for p in self.parameters]
        if now != self.known:
            self.known = now
            # Not of `.data`: a backward over values that a step has changed must be noticed, as in torch.
            flat = [p.detach().view(-1) for p in self.parameters]
            self.targets = [flat[k].narrow(0, start, count) for k, start, count in self.places]
        torch.cat([p.ds_tensor.to(self.mine.device) for p in self.parameters], out=self.mine)
        reach(dist.all_gather_into_tensor, self.table, self.mine, group=self.group)
        torch._foreach_copy_(self.targets, self.sources)
