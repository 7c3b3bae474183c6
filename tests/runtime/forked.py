"""Real processes for tests of faults, without the seconds that importing torch takes: one server that has imported it
forks the ranks of a run, which execute a script as `python script.py` would, each in a process of its own.

    with Forks() as forks:
        ended = forks.run(script, ["argument"], ranks=2, env={"DISTIFY_DEBUG": "1"})
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.runtime.launch import Ended, free_port

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 100.0  # seconds after which a run counts as hanging


class Forks:
    """The server, started once; a context manager."""

    def __enter__(self) -> Forks:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *(p for p in sys.path if p)])
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def run(
        self,
        script: Path,
        arguments: Sequence[str] = (),
        ranks: int = 2,
        env: Mapping[str, str | None] | None = None,
        restarts: int | None = None,
    ) -> list[Ended]:
        """Run a script on every rank, in its folder.

        Args:
            script, arguments: as on a command line.
            ranks: number of processes.
            env: added to the environment, a launcher's variables included; what is `None` is removed.
            restarts: if given, torch's elastic agent (what `torchrun` is made of) runs the ranks, and starts all again
                this many times when one fails; all that they print is then that of one process, the agent.

        Returns:
            How each ended; a negative code is a signal.
        """
        return self.together([(script, list(arguments), ranks, dict(env or {}), restarts)])[0]

    def together(
        self, runs: Sequence[tuple[Path, list[str], int, dict[str, str | None], int | None]]
    ) -> list[list[Ended]]:
        """Several runs at once, since most of them wait."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        jobs = [(str(script), *rest, free_port()) for script, *rest in runs]
        self.process.stdin.write(json.dumps(jobs) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return [[Ended(*values) for values in run] for run in answer]


def serve() -> None:
    import torch
    import torch.distributed.checkpoint
    import torch.distributed.launcher.api

    import distify.runtime
    import distify.runtime.saved_tensors  # noqa: F401

    torch.optim.SGD([torch.zeros(1)], 0.1)  # imports more
    gc.collect()
    gc.freeze()  # collections of a rank would go through all this, and copy the pages that it lies in
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        folder = Path(tempfile.mkdtemp())  # no TemporaryDirectory: the exit handlers of each rank would remove it
        runs = [_start(folder / str(k), *job) for k, job in enumerate(json.loads(line))]
        json.dump(_finish(runs, time.monotonic()), answers)
        shutil.rmtree(folder)
        answers.write("\n")
        answers.flush()


def _start(
    folder: Path,
    script: str,
    arguments: list[str],
    ranks: int,
    env: dict[str, str | None],
    restarts: int | None,
    port: int,
) -> list[tuple[int, Path]]:
    folder.mkdir()
    common = {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", **env}
    if restarts is not None:
        return [_fork(folder / "agent", common, lambda: _elastic(script, arguments, ranks, restarts, port))]
    sizes = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_PORT": str(port)}
    places = [{**sizes, "RANK": str(rank), "LOCAL_RANK": str(rank), **common} for rank in range(ranks)]
    return [_fork(folder / str(k), place, lambda: _script(script, arguments)) for k, place in enumerate(places)]


def _fork(output: Path, env: Mapping[str, str | None], body: Any) -> tuple[int, Path]:
    process = os.fork()
    if process:
        return process, output
    status = 1
    try:
        os.setsid()
        for number, name in ((1, ".out"), (2, ".err")):
            os.dup2(os.open(f"{output}{name}", os.O_WRONLY | os.O_CREAT, 0o600), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ.update({name: value for name, value in env.items() if value is not None})
        for name in (name for name, value in env.items() if value is None):
            os.environ.pop(name, None)
        status = body()
    finally:
        os._exit(status)


def _script(script: str, arguments: list[str]) -> int:
    """What the interpreter does with a script: run it, report an exception, run the exit handlers."""
    status = 0
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    os.chdir(Path(script).parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        status = 1
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return status


def _elastic(script: str, arguments: list[str], ranks: int, restarts: int, port: int) -> int:
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        run_id="run",
        rdzv_backend="c10d",
        rdzv_endpoint=f"127.0.0.1:{port}",
        max_restarts=restarts,
        monitor_interval=0.1,
        start_method="fork",
    )
    try:
        elastic_launch(config, _worker)(script, arguments)
    except Exception as error:
        sys.stderr.write(f"agent: {type(error).__name__}: {error}\n")
        return 1
    return 0


def _worker(script: str, arguments: list[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # a fork inherits the agent's handlers, a program that it starts does not
    status = _script(script, arguments)
    if status:
        os._exit(status)


def _finish(runs: list[list[tuple[int, Path]]], begun: float) -> list[list[tuple[int, str, str, float]]]:
    waiting = {process for run in runs for process, _ in run}
    codes: dict[int, tuple[int, float]] = {}
    while waiting:
        for process in list(waiting):
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                codes[process] = os.waitstatus_to_exitcode(status), time.monotonic() - begun
                waiting.discard(process)
            elif time.monotonic() - begun > LIMIT:
                with suppress(ProcessLookupError):
                    os.killpg(process, signal.SIGKILL)
        time.sleep(0.01)
    return [[(codes[p][0], _text(out, ".out"), _text(out, ".err"), codes[p][1]) for p, out in run] for run in runs]


def _text(output: Path, name: str) -> str:
    path = Path(f"{output}{name}")
    return path.read_text(errors="replace") if path.exists() else ""


if __name__ == "__main__":
    serve()
