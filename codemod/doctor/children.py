"""Processes that import torch and answer in JSON: what they find, and how fast they add up a tensor together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..launching.start import OF_A_PROCESS
from ..verify.running import end_all, stoppable, tail

TICK = 0.05


@dataclass
class Answers:
    """What the processes said.

    Attributes:
        facts: of torch; empty if it could not be imported.
        reduces: an all-reduce each: its backend, seconds, or an error.
        error: why there is no answer, or not all of them.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    reduces: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""


def ask(processes: int, kinds: Sequence[str], limit: float) -> Answers:
    """Start processes, wait for their answers, and leave none behind.

    Args:
        processes: their number; with one there is nothing to reduce.
        kinds: of communication: gloo, nccl.
        limit: seconds that all of it may take.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="distify-doctor-")))
        stack.enter_context(stoppable())
        children: list[subprocess.Popen[bytes]] = []
        stack.callback(end_all, children)
        for rank in range(processes):
            children.append(start(folder, rank, processes, kinds if processes > 1 else ()))
        in_time = wait(children, limit)
        codes = [child.poll() for child in children]
        return heard(folder, codes, limit if not in_time else None)


def command(folder: Path, rank: int, size: int, kinds: Sequence[str]) -> list[str]:
    """What one process executes."""
    safe = ["-P"] if sys.version_info >= (3, 11) else []  # no file of the working directory replaces a library
    words = [sys.executable, *safe, "-m", "distify.runtime.probe"]
    return [*words, str(rank), str(size), str(folder / "meet"), ",".join(kinds)]


def start(folder: Path, rank: int, size: int, kinds: Sequence[str]) -> subprocess.Popen[bytes]:
    """One process, at the head of a group of its own, so that all that it starts ends with it."""
    kept = {name: value for name, value in os.environ.items() if name not in OF_A_PROCESS}
    with open(folder / f"{rank}.out", "wb") as out, open(folder / f"{rank}.err", "wb") as err:
        return subprocess.Popen(
            command(folder, rank, size, kinds),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**kept, "PYTHONHASHSEED": "0"},
            start_new_session=True,
        )


def wait(children: Sequence[subprocess.Popen[bytes]], limit: float) -> bool:
    """Whether all end in time; one that fails ends the waiting."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        codes = [child.poll() for child in children]
        if None not in codes or any(codes):
            return True
        time.sleep(TICK)
    return False


def heard(folder: Path, codes: Sequence[int | None], late: float | None) -> Answers:
    """The answers, and the reason where some are missing."""
    found = Answers()
    for rank in range(len(codes)):
        for line in (folder / f"{rank}.out").read_text(errors="replace").splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict):
                found.facts = said.get("facts", found.facts)
                found.reduces += [said["reduce"]] if "reduce" in said else []
    failed = next((rank for rank, code in enumerate(codes) if code), None)
    if failed is not None:
        last = [line for line in tail(folder / f"{failed}.err") if line.strip()]
        found.error = (
            f"process {failed} ended with status {codes[failed]}: {last[-1].strip() if last else 'no message'}"
        )
    elif late is not None:
        found.error = f"no answer within {late:g} seconds"
    return found
