"""Which GPU is this process's, and whether another process has it too."""

from __future__ import annotations

import socket
from typing import Any

import torch

from .launcher import Launcher, LaunchError


def choose_device(launcher: Launcher) -> torch.device:
    """The device of this process; a GPU becomes the current one before anything else touches it.

    Raises:
        LaunchError: there are more processes on this machine than GPUs.
    """
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if launcher.world_size == 1:
        return torch.device("cuda", torch.cuda.current_device())
    there, local = torch.cuda.device_count(), launcher.local_rank
    if _needed(launcher) > there > 1:
        raise _too_many(launcher, there)
    place = torch.device("cuda", local if there > 1 else 0)
    torch.cuda.set_device(place)
    return place


def _needed(launcher: Launcher) -> int:
    return launcher.local_size or launcher.local_rank + 1


def _too_many(launcher: Launcher, there: int, shared: str = "") -> LaunchError:
    return LaunchError(
        f"{_needed(launcher)} processes were started on this machine, which has {there} GPU{'s' if there > 1 else ''}"
        f"{shared}. Start with `torchrun --nproc-per-node {there} …`, or on the CPU with CUDA_VISIBLE_DEVICES='' set.",
        everywhere=launcher.local_size is not None or launcher.local_rank < there,
    )


def unsure(launcher: Launcher, place: torch.device) -> bool:
    """Whether this process sees one GPU, which may be its own (as `srun --gpus-per-task 1` has it) or everybody's."""
    return place.type == "cuda" and torch.cuda.device_count() == 1 and launcher.world_size > 1


def name_of(place: torch.device) -> str:
    """What no other GPU of the run is called."""
    return f"{socket.gethostname()} {getattr(torch.cuda.get_device_properties(place), 'uuid', place)}"


def check_shared(store: Any, launcher: Launcher, name: str) -> None:
    """Tell the other processes which GPU this one has.

    Args:
        store: what the processes meet in.
        launcher: this process among all.
        name: of its GPU.

    Raises:
        LaunchError: another process has the same.
    """
    store.set(f"distify/gpu/{launcher.rank}", name)
    for rank in range(launcher.world_size):
        if rank != launcher.rank and store.get(f"distify/gpu/{rank}").decode() == name:
            raise _too_many(
                launcher, 1, f", and ranks {min(rank, launcher.rank)} and {max(rank, launcher.rank)} share it"
            )
