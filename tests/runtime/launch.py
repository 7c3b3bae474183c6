"""Start a script on several fresh processes with a launcher's variables, without the seconds that torchrun takes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Ended:
    """How one process ended: exit status, output, seconds since the start."""

    code: int
    stdout: str
    stderr: str
    seconds: float


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def launch(
    command: Sequence[str], ranks: int = 2, env: Mapping[str, str | None] | None = None, cwd: Path | None = None
) -> list[Ended]:
    """Run `python *command` on every rank; a variable set to `None` is removed."""
    port = str(free_port())
    processes = []
    begun = time.monotonic()
    for rank in range(ranks):
        values: dict[str, str | None] = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            **(env or {}),
        }
        environment = {name: value for name, value in values.items() if value is not None}
        processes.append(
            subprocess.Popen(
                [sys.executable, *command],
                env=environment,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    ended = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        ended.append(Ended(process.returncode, out, err, time.monotonic() - begun))
    return ended
