"""Processes that a verb starts: what they inherit, how they are watched, and that none is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from .dataclass import dataclass
from .launchers import MEETING, OWN

TICK = 0.1  # seconds between two looks at the processes
GENTLE = 3.0  # seconds between asking processes to end and ending them
TAIL = 12  # lines of standard error that are shown of a failure

# What a launcher says to one process: of its own, of the others, where they meet, and what the runtime notes of it.
OF_A_PROCESS = frozenset({*OWN, *MEETING, "_DISTIFY_RESTARTED"})


def unlaunched(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what a launcher said to this process: it is not for those that this one starts."""
    return {name: value for name, value in environment.items() if name not in OF_A_PROCESS}


def program(module: str) -> list[str]:
    """The command that runs a module of distify; no file of the working directory replaces a library."""
    if sys.version_info >= (3, 11):
        return [sys.executable, "-P", "-m", module]
    start = "import sys; del sys.path[0]; from runpy import run_module as run; "  # Python 3.10 has no -P
    return [sys.executable, "-c", f"{start}run({module!r}, run_name='__main__', alter_sys=True)"]


def spawn(
    command: Sequence[str], out: Path, err: Path, environment: Mapping[str, str], folder: str | None = None
) -> subprocess.Popen[bytes]:
    """Start a process at the head of a group of its own, so that all that it starts ends with it.

    Args:
        command: what it executes.
        out, err: files for what it writes.
        environment: its variables.
        folder: where it works, if not here.
    """
    with out.open("wb") as output, err.open("wb") as errors:
        return subprocess.Popen(
            list(command),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )


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


def watched(
    processes: Sequence[subprocess.Popen[bytes]],
    limit: float,
    grace: float,
    look: Callable[[float], None] | None = None,
) -> Ended:
    """Wait for the end of all, or for one that fails and what the others get then, or for the time limit.

    Args:
        processes: all of them.
        limit: seconds that they may take.
        grace: seconds that the others get when one has failed: they may be about to say more.
        look: called now and then with the seconds that passed.
    """
    begin = time.monotonic()
    first: int | None = None
    deadline = begin + limit
    while True:
        codes = [process.poll() for process in processes]
        now = time.monotonic()
        if first is None:
            first = next((rank for rank, code in enumerate(codes) if code), None)
            deadline = deadline if first is None else min(deadline, now + grace)
        if None not in codes or now >= deadline:
            late = first is None and None in codes
            return Ended([0 if code is None else code for code in codes], now - begin, first, late)
        if look is not None:
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


def tail(path: Path, lines: int = TAIL) -> list[str]:
    """The last lines of a file that say something."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]
