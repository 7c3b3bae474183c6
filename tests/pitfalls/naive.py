"""What a naive conversion is made of: PyTorch's own parts, on a group that gives up instead of hanging.

Every script gets a group of its own (`begin`), so that a collective that never ends breaks nothing else.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

groups: list[Any] = []


def begin(seconds: float) -> None:
    """A new group of all ranks, whose collectives fail after some seconds; what an earlier script left is dropped."""
    groups[:] = [dist.new_group(timeout=timedelta(seconds=seconds), backend="gloo")]


def rank() -> int:
    return dist.get_rank()


def world() -> int:
    return dist.get_world_size()


def ddp(model: nn.Module, **options: Any) -> nn.Module:
    """The model in DistributedDataParallel."""
    return DistributedDataParallel(model, process_group=groups[0], **options)


def sampler(data: Any, **options: Any) -> DistributedSampler[Any]:
    """A DistributedSampler over this group."""
    return DistributedSampler(data, num_replicas=world(), rank=rank(), **options)


def all_reduce(value: float | torch.Tensor) -> torch.Tensor:
    """The sum over the ranks, in place for tensors."""
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(float(value))
    dist.all_reduce(tensor, group=groups[0])
    return tensor


def average(value: float | torch.Tensor) -> float:
    """The mean of the ranks' values, each weighing the same."""
    return all_reduce(torch.as_tensor(value).detach().clone()).item() / world()


def barrier() -> None:
    dist.barrier(group=groups[0])


def mesh() -> Any:
    """A device mesh of all ranks, for fully_shard."""
    from torch.distributed.device_mesh import DeviceMesh

    return DeviceMesh.from_group(groups[0], "cpu")


def fully_shard(module: nn.Module) -> nn.Module:
    """FSDP2 over this group."""
    from torch.distributed.fsdp import fully_shard

    for child in module.children():
        fully_shard(child, mesh=mesh())  # type: ignore[call-overload]
    return fully_shard(module, mesh=mesh())
