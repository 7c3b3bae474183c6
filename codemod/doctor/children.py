"""Processes that import torch and answer in JSON: what they find, and how fast they add up a tensor together."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..dataclass import dataclass, field
from ..spawned import Ended, end_all, program, spawn, stoppable, tail, unlaunched, watched


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
        return heard(folder, wait(children, limit), limit)


def command(folder: Path, rank: int, size: int, kinds: Sequence[str]) -> list[str]:
    """What one process executes."""
    return [*program("distify.runtime.probe"), str(rank), str(size), str(folder / "meet"), ",".join(kinds)]


def start(folder: Path, rank: int, size: int, kinds: Sequence[str]) -> subprocess.Popen[bytes]:
    """One process."""
    environment = {**unlaunched(os.environ), "PYTHONHASHSEED": "0"}
    return spawn(command(folder, rank, size, kinds), folder / f"{rank}.out", folder / f"{rank}.err", environment)


def wait(children: Sequence[subprocess.Popen[bytes]], limit: float) -> Ended:
    """How all end; one that fails ends the waiting."""
    return watched(children, limit, grace=0)


def heard(folder: Path, ended: Ended, limit: float) -> Answers:
    """The answers, and the reason where some are missing."""
    found = Answers()
    for rank in range(len(ended.codes)):
        for line in (folder / f"{rank}.out").read_text(errors="replace").splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict):
                found.facts = said.get("facts", found.facts)
                found.reduces += [said["reduce"]] if "reduce" in said else []
    if ended.first is not None:
        last = tail(folder / f"{ended.first}.err") or ["no message"]
        found.error = f"process {ended.first} ended with status {ended.codes[ended.first]}: {last[-1].strip()}"
    elif ended.late:
        found.error = f"no answer within {limit:g} seconds"
    return found
