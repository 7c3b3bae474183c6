"""Persistent worker processes joined by gloo, so that a test on several ranks costs milliseconds and not a launch.

`Pool(2).run(function, *args)` calls an importable function on every rank and returns what each returned.
`Pool(2).script(path)` runs a script as `__main__` on every rank, as a launcher would, with a fresh runtime.

All workers are forks of one server, which has imported torch and DeepSpeed: that takes seconds, and would in each of them.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GRACE = 8.0  # seconds that the other ranks get after one has failed: they may wait for it in a collective


class RankError(AssertionError):
    """A rank raised; the message holds the traceback of every rank that did.

    Attributes:
        types: the exception's class name by rank, `None` where nothing was raised.
        messages: the exception's text by rank.
    """

    def __init__(self, message: str, types: list[str | None], messages: list[str]) -> None:
        super().__init__(message)
        self.types = types
        self.messages = messages


class PoolTimeout(AssertionError):
    """The ranks did not answer in time; they were killed, the next call starts new ones."""


@dataclass
class Run:
    """What a script did on all ranks.

    Attributes:
        code: exit status, the largest of all ranks (1 for an exception).
        error: tracebacks of the ranks that raised, empty if none did.
        stdout: standard output of rank 0.
        others: standard output of the other ranks; all empty when the runtime silences them.
        stderr: standard error by rank.
    """

    code: int
    error: str
    stdout: str
    others: list[str] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)

    def check(self) -> Run:
        """Raise `AssertionError` with the traceback if a rank failed; return the run itself."""
        assert self.code == 0, f"exit status {self.code}\n{self.error}\n{self.stdout}\n" + "\n".join(self.stderr)
        return self


@dataclass
class Answer:
    """One rank's result: a value, or an exception as text."""

    value: Any = None
    error: str | None = None
    kind: str | None = None
    text: str = ""


@dataclass
class Worker:
    """A fork of the server."""

    pid: int

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, seconds: float) -> bool:
        """Whether it ended in that time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.005)
        return False


class Server:
    """Starts workers; it ends with this process, when its socket does."""

    def __init__(self) -> None:
        self.socket, there = socket.socketpair()
        environment = {
            **os.environ,
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
            "DS_ACCELERATOR": "cpu",
            "LOCAL_SIZE": "1",  # else DeepSpeed starts numactl at every backward, to count
            "CUDA_VISIBLE_DEVICES": "",
        }
        number = there.fileno()
        command = [sys.executable, str(ROOT / "tests" / "pool_worker.py"), str(number)]
        with tempfile.TemporaryFile() as log:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[number]
            )
        there.close()

    def fork(self, environment: Mapping[str, str], pipe: Connection, log: int) -> Worker:
        """A worker with these variables in addition, at the other end of a pipe, that writes into a file."""
        socket.send_fds(self.socket, [pickle.dumps(dict(environment))], [pipe.fileno(), log])
        answer = self.socket.recv(16)
        assert answer, "the server of the workers died"
        return Worker(int(answer))


@lru_cache(maxsize=None)
def server() -> Server:
    return Server()


class Pool:
    """`size` worker processes, started at the first call and reused until `close`.

    Arguments:
        size: number of ranks.
        timeout: default limit of a call, in seconds; when it passes, all workers are killed.
    """

    def __init__(self, size: int, timeout: float = 120.0) -> None:
        self.size = size
        self.timeout = timeout
        self.workers: list[Worker] = []
        self.pipes: list[Connection] = []
        self.logs: list[Path] = []
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    def run(self, function: Callable[..., Any], *args: Any, timeout: float | None = None, **kwargs: Any) -> list[Any]:
        """Call `function(*args, **kwargs)` on every rank; return the results in rank order.

        The function is found by module and name, so it must stand at the top of an importable module.

        Raises:
            RankError: a rank raised.
            PoolTimeout: a rank did not answer.
        """
        answers = self._ask(("call", function, args, kwargs), timeout)
        if any(a.error for a in answers):
            trace = "\n".join(f"--- rank {rank} ---\n{a.error}" for rank, a in enumerate(answers) if a.error)
            raise RankError("\n" + trace, [a.kind for a in answers], [a.text for a in answers])
        return [a.value for a in answers]

    def script(
        self,
        path: str | Path,
        argv: Sequence[str] = (),
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Run:
        """Run a script as `__main__` on every rank; a failing script is reported in the result, not raised.

        Raises:
            PoolTimeout: the ranks hang.
        """
        job = ("script", str(Path(path).resolve()), [str(a) for a in argv], str(cwd or Path.cwd()), dict(env or {}))
        values = [a.value or (1, a.error or "", "", "") for a in self._ask(job, timeout)]
        error = "\n".join(f"--- rank {rank} ---\n{v[1]}" for rank, v in enumerate(values) if v[1])
        out = [v[2] for v in values]
        return Run(max(v[0] for v in values), error, out[0], out[1:], [v[3] for v in values])

    def close(self) -> None:
        """End the workers."""
        for pipe in self.pipes:
            pipe.close()  # a worker ends when its pipe does
        for worker in self.workers:
            if not worker.wait(2):
                worker.kill()
                worker.wait(2)
        self.workers, self.pipes = [], []
        if self.folder is not None:
            self.folder.cleanup()
            self.folder = None

    def _kill(self) -> str:
        """Kill the workers and return the end of their logs, with the stacks that they hang in."""
        for worker in self.workers:
            worker.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
        for worker in self.workers:
            worker.kill()
        tails = [f"--- log of rank {rank} ---\n{_tail(path)}" for rank, path in enumerate(self.logs)]
        self.close()
        return "\n".join(tails)

    def _start(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="pool-")
        self.logs = [Path(self.folder.name) / f"rank{rank}.log" for rank in range(self.size)]
        for rank in range(self.size):
            here, there = Pipe()
            env = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(self.size),
                "LOCAL_WORLD_SIZE": str(self.size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": "0",
            }
            with self.logs[rank].open("wb") as log:
                worker = server().fork(env, there, log.fileno())
            there.close()
            self.workers.append(worker)
            self.pipes.append(here)
            here.send_bytes(pickle.dumps([str(ROOT), *sys.path]))
        port = self._collect(60.0)[0].value
        for pipe in self.pipes[1:]:
            pipe.send_bytes(pickle.dumps(port))
        self._collect(60.0)

    def _ask(self, job: tuple[Any, ...], timeout: float | None) -> list[Answer]:
        if not self.workers:
            self._start()
        data = pickle.dumps(job)
        for pipe in self.pipes:
            pipe.send_bytes(data)
        return self._collect(timeout or self.timeout)

    def _collect(self, timeout: float) -> list[Answer]:
        """One answer of every rank; when one has failed, the others get `GRACE` seconds and are then killed."""
        answers: dict[int, Answer] = {}
        deadline = time.monotonic() + timeout
        failed = False
        while len(answers) < self.size:
            left = {self.pipes[rank]: rank for rank in range(self.size) if rank not in answers}
            ready = wait(list(left), max(0.0, deadline - time.monotonic()))
            if not ready:
                tails = self._kill()
                if not failed:
                    silent = sorted(left.values())
                    raise PoolTimeout(f"ranks {silent} did not answer within {timeout:.0f} s\n{tails}")
                lost = Answer(error="no answer: it waited for a rank that had failed, and was killed", kind="Killed")
                return [answers.get(rank, lost) for rank in range(self.size)]
            for pipe in ready:
                rank = left[pipe]  # type: ignore[index]
                try:
                    answers[rank] = pickle.loads(pipe.recv_bytes())  # type: ignore[union-attr]
                except (EOFError, ConnectionError):
                    answers[rank] = Answer(error=f"the worker died\n{_tail(self.logs[rank])}", kind="Died")
                if answers[rank].error and not failed:
                    failed = True
                    deadline = min(deadline, time.monotonic() + GRACE)
        if any(a.kind == "Died" for a in answers.values()):
            self._kill()
        return [answers[rank] for rank in range(self.size)]


def _tail(path: Path, lines: int = 40) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
