"""Runs one program in one or several processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ..dataclass import dataclass, field
from ..spawned import Ended, end_all, spawn, unlaunched, watched
from .child.settings import VARIABLE, Settings

GRACE = 10.0  # seconds that the others get when one has failed: they may be about to say more
CUSTOMIZE = "from distify.codemod.verify.child.hook import start\n\nstart({folder!r})\n"


@dataclass(frozen=True)
class Job:
    """A program to be run.

    Attributes:
        name: of its files.
        command: what each process executes.
        folder: where it works.
        scratch: where its output and trace go.
        root, source: of the scratch copy of the project.
        processes: their number; 0 is one process without a launcher.
        steps: after how many optimizer steps it ends.
        dropout: whether dropout stays.
        nudge: whether weights are moved by their last digit.
        environment: variables besides those that are there.
    """

    name: str
    command: Sequence[str]
    folder: str
    scratch: Path
    root: str
    source: str
    processes: int = 0
    steps: int | None = None
    dropout: bool = True
    nudge: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    def file(self, rank: int, kind: str) -> Path:
        """Where one process writes its output (`out`, `err`) or its trace (`trace`, `trace.facts`)."""
        return self.scratch / f"{self.name}-{rank}.{kind}"

    @property
    def runtime_trace(self) -> Path:
        """Where the runtime of a rewritten script writes its trace."""
        return self.scratch / f"{self.name}.runtime"


def run(job: Job, limit: float, look: Callable[[float], None]) -> Ended:
    """Run a program to its end; whatever happens, no process of it is left.

    Args:
        job: the program.
        limit: seconds that it may take.
        look: called now and then with the seconds that passed.
    """
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank, environment in enumerate(environments(job)):
            out, err = job.file(rank, "out"), job.file(rank, "err")
            processes.append(spawn(job.command, out, err, environment, job.folder))
        return watched(processes, limit, GRACE, look)
    finally:
        end_all(processes)


def environments(job: Job) -> Iterator[dict[str, str]]:
    """The variables of each process, as a launcher sets them."""
    hook = job.scratch / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(CUSTOMIZE.format(folder=str(hook)), encoding="utf-8")
    path = os.environ.get("PYTHONPATH")
    plain = {name: value for name, value in unlaunched(os.environ).items() if name != "DISTIFY_TRACE"}
    plain |= {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join([str(hook), *([path] if path else [])])}
    if not plain.get("PYTHONHASHSEED", "").isdigit():
        plain["PYTHONHASHSEED"] = "0"
    plain |= job.environment
    port = str(free_port())
    for rank in range(max(1, job.processes)):
        settings = Settings(
            root=job.root,
            source=job.source,
            notes=str(job.file(rank, "trace")),
            lead=rank == 0,
            rewritten=job.processes > 0,
            steps=job.steps,
            dropout=job.dropout,
            nudge=job.nudge,
            path=path,
        )
        environment = {**plain, VARIABLE: settings.dumped()}
        if job.processes:
            environment |= launched(rank, job.processes, port) | {"DISTIFY_TRACE": str(job.runtime_trace)}
            environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // job.processes)))
        yield environment


def launched(rank: int, size: int, port: str) -> dict[str, str]:
    """What `torchrun` says to one of several processes on this machine."""
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0"}
    sizes = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
    return {**place, **sizes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def python() -> str:
    """The interpreter that runs the scripts: the one that runs this."""
    return sys.executable
