"""The other side of `tests/pool.py`: a server that forks workers, each a loop that runs functions and scripts and answers
through a pipe."""

from __future__ import annotations

import ast
import faulthandler
import gc
import os
import pickle
import random
import runpy
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


def main() -> None:
    """Fork workers as long as there is someone to ask for them."""
    asked = socket.socket(fileno=int(sys.argv[1]))
    imported()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no worker is waited for
    while True:
        data, files, _, _ = socket.recv_fds(asked, 1 << 20, 2)
        if not data:
            os._exit(0)
        process = os.fork()
        if not process:
            try:
                asked.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.environ.update(pickle.loads(data))
                pipe, log = files
                for number in (1, 2):
                    os.dup2(log, number)
                os.close(log)
                work(Connection(pipe))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        for file in files:
            os.close(file)
        asked.sendall(str(process).encode())


def imported() -> None:
    """Import what workers need, and spare collections what that leaves: they would copy the pages that it lies in."""
    import torch

    torch.optim.SGD([torch.zeros(1)], 0.1)  # imports more
    for module in (torch.cuda.random, torch.xpu.random, torch.mtia):
        module._lazy_call = lambda *_, **__: None  # type: ignore[attr-defined]  # keeps seeds for devices that never come
    with suppress(ImportError):
        import deepspeed.runtime.engine
        import deepspeed.runtime.zero.muon.muon_optimizer
        import deepspeed.runtime.zero.stage3  # noqa: F401
    gc.collect()
    gc.freeze()


def work(pipe: Connection) -> None:
    faulthandler.register(signal.SIGUSR1, file=os.dup(2), all_threads=True)  # the pool asks where a rank hangs
    sys.argv = ["worker"]
    sys.path[:] = list(dict.fromkeys(p for p in pickle.loads(pipe.recv_bytes()) if p))
    from tests.pool import Answer  # the same class as the parent's, for pickling

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    import torch.distributed as dist

    limit = timedelta(seconds=100)
    port = 0
    if rank > 0:
        pipe.send_bytes(pickle.dumps(Answer(0)))
        port = pickle.loads(pipe.recv_bytes())
    store = dist.TCPStore("127.0.0.1", port, size, rank == 0, limit, wait_for_workers=False)
    os.environ["MASTER_PORT"] = str(store.port)
    if rank == 0:
        pipe.send_bytes(pickle.dumps(Answer(store.port)))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=limit)
    pipe.send_bytes(pickle.dumps(Answer()))
    while True:
        settle()
        try:
            job = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)  # the pool is gone: nothing to clean, and no peer to wait for
        except Exception as error:  # a function that can't be imported here
            pipe.send_bytes(pickle.dumps(Answer(None, traceback.format_exc(), type(error).__name__, str(error))))
            continue
        with fresh():
            answer = call(*job[1:]) if job[0] == "call" else Answer(script(*job[1:]))
        pipe.send_bytes(dump(answer))


def settle() -> None:
    """Free what the last job left behind, and spare collections all that was there before the next one.

    ZeRO collects garbage whenever it builds an engine, which costs more than all else in a small test if each
    collection goes through the objects of torch and DeepSpeed, or through those of all tests so far.
    """
    gc.collect()
    gc.freeze()


def dump(answer: Any) -> bytes:
    try:
        return pickle.dumps(answer)
    except Exception as error:  # a result that can't be sent, such as a module with local functions
        answer.value, answer.error, answer.kind = None, traceback.format_exc(), type(error).__name__
        return pickle.dumps(answer)


def call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from tests.pool import Answer

    try:
        return Answer(function(*args, **kwargs))
    except BaseException as error:
        return Answer(None, traceback.format_exc(), type(error).__name__, str(error))


def script(path: str, argv: list[str], cwd: str, env: dict[str, str]) -> tuple[int, str, str, str]:
    """Run a script; return exit status, traceback, standard output and standard error."""
    code, error = 0, ""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with descriptors(out.fileno(), err.fileno()), place(path, argv, cwd, env):
            try:
                silence()
                runpy.run_path(path, run_name="__main__")
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
                error = stop.code if isinstance(stop.code, str) else ""
            except BaseException:
                code, error = 1, traceback.format_exc()
        out.seek(0)
        err.seek(0)
        return code, error, out.read().decode(errors="replace"), err.read().decode(errors="replace")


def silence() -> None:
    """The runtime silences other ranks when it is imported; here an earlier run may have imported it."""
    output = sys.modules.get("distify.runtime.output")
    again = getattr(output, "silence", None)
    if again is not None:
        again()


@contextmanager
def descriptors(out: int, err: int) -> Iterator[None]:
    """Send descriptors 1 and 2 elsewhere."""
    streams = sys.stdout, sys.stderr
    kept = os.dup(1), os.dup(2)
    for stream in streams:
        stream.flush()
    os.dup2(out, 1)
    os.dup2(err, 2)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr, *streams):
            stream.flush()
        sys.stdout, sys.stderr = streams
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextmanager
def place(path: str, argv: list[str], cwd: str, env: dict[str, str]) -> Iterator[None]:
    """Working directory, arguments, environment and import path as a launcher would set them."""
    before = os.getcwd(), sys.argv[:], dict(os.environ), sys.path[:]
    os.chdir(cwd)
    sys.argv = [path, *argv]
    os.environ.update(env)
    sys.path.insert(0, str(Path(path).parent))
    try:
        yield
    finally:
        os.chdir(before[0])
        sys.argv, sys.path[:] = before[1], before[3]
        os.environ.clear()
        os.environ.update(before[2])
        folders = [f"{Path(path).parent}{os.sep}", f"{Path(cwd).resolve()}{os.sep}"]
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None) or ""
            own = any(file.startswith(f) for f in folders) and "site-packages" not in file
            if own and not name.startswith(("distify", "tests")):
                del sys.modules[name]


@contextmanager
def fresh() -> Iterator[None]:
    """A fresh runtime, random streams and torch defaults around every job."""
    import torch

    linear = torch.nn.functional.linear
    random.seed(0)
    torch.manual_seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    try:
        yield
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        torch.use_deterministic_algorithms(False)
        torch.nn.functional.linear = linear  # DeepSpeed's ZeRO 3 leaves its own there
        runtime = sys.modules.get("distify.runtime")
        state = sys.modules.get("distify.runtime.state")
        try:
            if hasattr(runtime, "shutdown"):
                runtime.shutdown()  # type: ignore[union-attr]
        except Exception:
            traceback.print_exc()
        if state is not None:
            state.state.reset()
        for name, module in list(sys.modules.items()):
            if name.startswith("distify.runtime.") and getattr(module, "__file__", None):
                vars(module).update(numbers(str(module.__file__)))


@cache
def numbers(file: str) -> dict[str, float]:
    """Limits and sizes at the top of a module, which a test may have changed, as they stand in its file."""
    found = {}
    for node in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper():
            with suppress(NameError, TypeError):
                value = eval(compile(ast.Expression(node.value), file, "eval"), {})
                if isinstance(value, (int, float)):
                    found[node.targets[0].id] = value
    return found


if __name__ == "__main__":
    main()
