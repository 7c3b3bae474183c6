"""Where both runs compute."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable

from ..launching.machine import visible
from .sources import Unable


def where(device: str) -> str:
    """Where both runs compute, and how the processes talk."""
    return "GPUs (NCCL)" if device == "cuda" else "CPU (gloo)"


def variables(device: str, processes: int) -> dict[str, str]:
    """Variables that keep a run on a device; `processes` is 0 without a launcher."""
    if device == "cuda":
        return {"NVIDIA_TF32_OVERRIDE": "0"}  # which rounds to ten bits, and differently for each size
    found = {"CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu"}
    if processes and os.path.exists("/sys/class/net/lo"):
        found["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    return found


def device_for(wanted: str, size: int, count: Callable[[], int] | None = None) -> tuple[str, list[str]]:
    """Where both runs compute, and what there is to say about it."""
    if wanted == "cpu":
        return "cpu", []
    there = (gpus if count is None else count)()
    if there >= size:
        return "cuda", []
    if wanted == "cuda":
        raise Unable(
            f"--device cuda: there are {there} GPUs for {size} processes; --nproc {max(1, there)} or --device cpu"
        )
    if there:
        return "cpu", [f"{there} GPU for {size} processes: both runs are on the CPU"]
    return "cpu", []


def gpus() -> int:
    """How many GPUs this process may use; told without torch."""
    there = len([path for path in glob.glob("/dev/nvidia*") if re.fullmatch(r"/dev/nvidia\d+", path)])
    limit = visible(os.environ)
    return there if limit is None else min(there, limit)
