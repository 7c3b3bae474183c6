"""Which ranks share the parts of a model: all of them, or groups of a few that each hold all of it (hybrid sharding).

With groups of `shard_size` ranks, the processes of one machine for instance, parameters are gathered and gradients
reduced to parts within a group; only a part's gradient is averaged between groups. So what the slow links between
machines carry in a step is 2(M-1)/M of a rank's part for M groups, where cutting over all ranks sends whole parameters
and gradients across them. Each rank holds more: 1/shard_size of the model instead of 1/N.

Source: Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel" (2023), section 3.2.2; Zhang et
al., "MiCS: Near-linear Scaling for Training Gigantic Model on Public Cloud" (2022).
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

from ..config import ConfigError
from ..joining import kinds, timeout
from ..state import state


def check(size: int) -> None:
    """Refuse groups that don't come out even; tell of such as lie on parts of several machines.

    Raises:
        ConfigError: the number of ranks is no multiple of the groups' size.
    """
    world = state.world_size
    if world % size:
        fit = ", ".join(str(k) for k in range(2, world + 1) if world % k == 0)
        raise ConfigError(
            f"shard_size={size}: {world} processes can't be divided into groups of {size} that each hold all of a "
            f"model. Take the number of processes of one machine, or another that divides {world} ({fit})."
        )
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    if size != world and state.rank == 0 and local.isdigit() and size % int(local) and int(local) % size:
        sys.stderr.write(
            f"distify: shard_size={size}, but each machine runs {local} processes: some groups lie on parts of two "
            f"machines and gather all of a model between them. Groups of {local} stay within one.\n"
        )


def of_ranks(size: int) -> DeviceMesh:
    """The ranks as FSDP wants them: in one dimension, or groups of `size` neighbours; a collective."""
    assert state.device is not None
    if size == state.world_size:
        return init_device_mesh(state.device.type, (size,))
    return _groups(dist.group.WORLD, state.device.type, size)


@lru_cache(maxsize=2)
def _groups(world: Any, kind: str, size: int) -> DeviceMesh:
    """Groups of neighbours.

    Those of torch's `init_device_mesh` would have a limit of time of their own, not that of this run. A run that
    comes after another in one process group takes over the other's: torch takes equal meshes for the same one.
    """
    ranks = torch.arange(state.world_size).view(-1, size)
    made, backend = list[Any](), kinds(torch.device(kind))
    for members in (ranks.t(), ranks):  # every rank is in one of each
        found: Any = dist.new_subgroups_by_enumeration(members.tolist(), timeout(), backend)  # type: ignore[no-untyped-call]
        made.append(found[0])
    return DeviceMesh.from_group(made, kind, ranks, mesh_dim_names=("replicate", "shard"))


def seat(tensor: DTensor) -> tuple[int, int]:
    """Which part of a sharded tensor this rank holds, and of how many."""
    mesh = tensor.device_mesh
    return mesh.get_local_rank(mesh.ndim - 1), mesh.size(mesh.ndim - 1)


def copy_of(tensor: DTensor) -> tuple[int, int]:
    """Which of the ranks that hold the same part this is, and how many they are."""
    mesh = tensor.device_mesh
    return (mesh.get_local_rank(0), mesh.size(0)) if mesh.ndim > 1 else (0, 1)
