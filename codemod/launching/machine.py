"""What there is on this machine, told without torch."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
from collections.abc import Mapping

from ..launchers import STARTED
from ..spawned import program

PATIENCE = 20.0  # seconds; a driver that hangs is no reason to


def gpus(environment: Mapping[str, str]) -> int:
    """How many GPUs a run may use."""
    limit = visible(environment)
    return len(gpu_names()) if limit is None else limit


def visible(environment: Mapping[str, str]) -> int | None:
    """How many GPUs the environment leaves visible; `None` if it says nothing of them."""
    text = environment.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    return next((k for k, name in enumerate(names) if name in ("", "-1")), len(names))


def gpu_names() -> list[str]:
    """What the driver calls the GPUs, empty without one."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []


def has_torch() -> bool:
    """Whether torch, and what of distify needs it, is beside this package."""
    return importlib.util.find_spec("torch") is not None and importlib.util.find_spec("distify.runtime") is not None


def starter() -> list[str] | None:
    """What starts several processes: torch beside this package, else `torchrun` on the path, else nothing."""
    if has_torch():
        return program("distify.runtime.agent")
    found = shutil.which("torchrun")
    return None if found is None else [found]


def has_address(host: str) -> bool:
    """Whether a name of a machine, or an address, means something here."""
    try:
        return bool(socket.getaddrinfo(host.strip("[]"), None))
    except (OSError, UnicodeError):
        return False


def several_tasks(environment: Mapping[str, str]) -> str:
    """What says that another launcher started this command several times at once; empty if none did."""
    for name in STARTED:
        if environment.get(name, "").isdigit() and int(environment[name]) > 1:
            return f"{name}={environment[name]}"
    return ""
