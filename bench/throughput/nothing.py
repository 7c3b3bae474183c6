"""Collectives that do nothing, so that one process of a group shows what a step costs its own processor and GPU.

Numbers come out wrong, and nothing waits for a link or for other processes: times are those of an infinitely fast
network. The group is torch's `fake` one, made for tests of its own.
"""

from __future__ import annotations

import os
from typing import Any

import torch.distributed as dist


def install() -> None:
    """Begin a group of which this is rank 0, and let all further groups of this process be such ones."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    group = dist.new_group

    def new_group(ranks: Any = None, *args: Any, **options: Any) -> Any:
        return group(ranks, backend="fake")

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=int(os.environ["WORLD_SIZE"]))
    dist.init_process_group = lambda *args, **options: None
    dist.new_group = new_group
