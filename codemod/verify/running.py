"""Runs one program in one or several processes, and sees to it that none is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from .child.settings import VARIABLE, Settings

TICK = 0.1  # seconds between two looks at the processes
GRACE = 10.0  # seconds that the others get when one has failed: they may be about to say more
GENTLE = 3.0  # seconds between asking processes to end and ending them
TAIL = 12  # lines of standard error that are shown of a failure
LAUNCHED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
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


@dataclass
class Ended:
    """How a run ended.

    Attributes:
        codes: exit status of each process; negative for a signal.
        seconds: that it took.
        first: the process that failed first, `None` if none did.
        late: whether it was ended by the time limit.
    """

    codes: list[int]
    seconds: float
    first: int | None = None
    late: bool = False

    @property
    def well(self) -> bool:
        """Whether all processes came to their end."""
        return not self.late and self.first is None


def run(job: Job, limit: float, look: Callable[[float], None]) -> Ended:
    """Run a program to its end; whatever happens, no process of it is left.

    Args:
        job: the program.
        limit: seconds that it may take.
        look: called now and then with the seconds that passed.
    """
    begin = time.monotonic()
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank, environment in enumerate(environments(job)):
            processes.append(start(job, rank, environment))
        return watched(processes, begin, limit, look)
    finally:
        end_all(processes)


def start(job: Job, rank: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start one process, in a session of its own."""
    with job.file(rank, "out").open("wb") as out, job.file(rank, "err").open("wb") as err:
        return subprocess.Popen(
            list(job.command),
            cwd=job.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )


def watched(
    processes: Sequence[subprocess.Popen[bytes]], begin: float, limit: float, look: Callable[[float], None]
) -> Ended:
    """Wait for the end of all, or for one that fails and `GRACE` after that, or for the time limit."""
    first: int | None = None
    deadline = begin + limit
    while True:
        codes = [process.poll() for process in processes]
        now = time.monotonic()
        if first is None:
            first = next((rank for rank, code in enumerate(codes) if code), None)
            deadline = deadline if first is None else min(deadline, now + GRACE)
        if None not in codes or now >= deadline:
            late = first is None and None in codes
            return Ended([0 if code is None else code for code in codes], now - begin, first, late)
        look(now - begin)
        time.sleep(TICK)


def end_all(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes with all that they started; another Ctrl-C meanwhile does not leave any."""
    with deaf():
        for process in processes:
            send(process, signal.SIGTERM)
        deadline = time.monotonic() + GENTLE
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        for process in processes:  # also where the process ended: its workers may not have
            send(process, getattr(signal, "SIGKILL", signal.SIGTERM))
            process.wait()


def send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a process and all that belong to its group."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        elif process.poll() is None:
            process.send_signal(number)


@contextmanager
def deaf() -> Iterator[None]:
    """Ctrl-C does nothing in here."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, kept)


@contextmanager
def stoppable() -> Iterator[None]:
    """A request to end (SIGTERM, or the terminal that closes) is taken as Ctrl-C is, so that all is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    kept = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def environments(job: Job) -> Iterator[dict[str, str]]:
    """The variables of each process, as a launcher sets them."""
    hook = job.scratch / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(CUSTOMIZE.format(folder=str(hook)), encoding="utf-8")
    path = os.environ.get("PYTHONPATH")
    plain = {name: value for name, value in os.environ.items() if name not in LAUNCHED and name != "DISTIFY_TRACE"}
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


def tail(path: Path, lines: int = TAIL) -> list[str]:
    """The last lines of a file that say something."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]


def python() -> str:
    """The interpreter that runs the scripts: the one that runs this."""
    return sys.executable
