"""What torch finds on this machine, and how fast processes add up a tensor: `distify doctor` starts this.

    python -m distify.runtime.probe RANK SIZE FILE gloo,nccl

Each process prints one line of JSON per answer; the processes meet through FILE. Nothing here joins a run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

LARGE = 16 << 20  # bytes; more than a cache holds, little enough for any machine
SMALL = 4
ROUNDS = 5
LIMIT = timedelta(seconds=60)


def facts() -> dict[str, Any]:
    """What is known of torch and the GPUs that it sees."""
    there = torch.cuda.is_available()
    gpus = []
    for index in range(torch.cuda.device_count() if there else 0):
        found = torch.cuda.get_device_properties(index)
        memory = round(found.total_memory / 2**30, 1)
        gpus.append({"name": found.name, "memory_gib": memory, "capability": [found.major, found.minor]})
    nccl = dist.is_available() and dist.is_nccl_available()
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "gpus": gpus,
        "gloo": dist.is_available() and dist.is_gloo_available(),
        "nccl": version() if nccl and there else nccl,
        "threads": torch.get_num_threads(),
    }


def version() -> str:
    """Of NCCL."""
    return ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]


def measured(kind: str, rank: int, size: int) -> dict[str, Any]:
    """How long an all-reduce takes, in seconds, and whether its sum is right."""
    place = torch.device("cuda", rank) if kind == "nccl" else torch.device("cpu")
    large = torch.full((LARGE // 4,), float(rank + 1), device=place)
    small = torch.full((SMALL // 4,), float(rank + 1), device=place)
    wanted = size * (size + 1) / 2
    dist.all_reduce(large)
    dist.all_reduce(small)
    right = bool((large == wanted).all()) and bool((small == wanted).all())
    return {
        "backend": kind,
        "processes": size,
        "right": right,
        "bytes": LARGE,
        "seconds": fastest(lambda: dist.all_reduce(large.zero_()), place),
        "small_seconds": fastest(lambda: dist.all_reduce(small.zero_()), place),
    }


def fastest(work: Callable[[], Any], place: torch.device) -> float:
    """The shortest time that something took: what else the machine does only makes it longer."""
    times = []
    for _ in range(ROUNDS):
        if place.type == "cuda":
            torch.cuda.synchronize(place)
        begin = time.perf_counter()
        work()
        if place.type == "cuda":
            torch.cuda.synchronize(place)
        times.append(time.perf_counter() - begin)
    return min(times)


def main(arguments: Sequence[str]) -> None:
    """Answers on standard output."""
    rank, size, file = int(arguments[0]), int(arguments[1]), arguments[2]
    kinds = [kind for kind in arguments[3].split(",") if kind]  # none where nothing is to be reduced
    found = facts()
    tell("facts", found, rank)
    if found["nccl"] and len(found["gpus"]) < size:
        kinds = [kind for kind in kinds if kind != "nccl"]
    for kind in kinds:
        if not found[kind]:
            continue
        try:
            if kind == "nccl":
                torch.cuda.set_device(rank)
            dist.init_process_group(
                kind, init_method=f"file://{file}.{kind}", rank=rank, world_size=size, timeout=LIMIT
            )
            tell("reduce", measured(kind, rank, size), rank)
            dist.destroy_process_group()
        except (RuntimeError, ValueError, OSError) as error:
            tell("reduce", {"backend": kind, "error": " ".join(str(error).split())[:300]}, rank)
            return


def tell(what: str, value: dict[str, Any], rank: int) -> None:
    """One answer; that of the first process is enough, unless another one failed."""
    if rank == 0 or "error" in value:
        print(json.dumps({what: value}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
