"""Starts training processes quickly: imports what they need once, then forks them.

    python preload.py [module …]      # jobs as JSON lines on standard input, results as JSON lines on standard output

A job: {"script", "argv", "environments" (one per process), "folder", "output" (a path to which `.RANK.out` and
`.RANK.err` are added), "limit" (seconds)}. Each process begins with modules imported, nothing else: no GPU has been
touched here, since a CUDA context doesn't survive a fork. If an import did that, the process ends with status 77, and
whoever asked starts it with no imports. Where one process fails, the others have a few seconds to end by themselves.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import runpy
import signal
import socket
import sys
import time
from typing import Any

POISONED = 77
GRACE = 5.0  # seconds


def main() -> None:
    """Serve jobs until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what imports print is no answer
    for name in sys.argv[1:]:
        importlib.import_module(name)
    answers.write(json.dumps({"ready": True}) + "\n")
    answers.flush()
    for line in iter(sys.stdin.readline, ""):
        job = json.loads(line)
        pids = []
        for rank, environment in enumerate(job["environments"]):
            pid = os.fork()
            if not pid:
                answers.close()
                become(job, rank, environment)
                return
            pids.append(pid)
        answers.write(json.dumps(attend(pids, job["limit"])) + "\n")
        answers.flush()


def become(job: dict[str, Any], rank: int, environment: dict[str, str]) -> None:
    """Be process `rank` of a job: run its script, then end as a Python program does."""
    os.setsid()
    for descriptor, name in ((1, "out"), (2, "err")):
        file = os.open(f"{job['output']}.{rank}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, descriptor)
        os.close(file)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.environ.update(environment)
    os.chdir(job["folder"])
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda._is_in_bad_fork():
        sys.exit(POISONED)
    if "BENCH_CAP" in environment:
        cap(int(environment["BENCH_CAP"]))
    sys.argv = [job["script"], *job["argv"]]
    sys.path[0] = os.path.dirname(job["script"])
    sys.path[1:1] = environment.get("BENCH_PATH", "").split(os.pathsep)
    if "NCCL_HOSTID" in environment:  # machines of their own, also to what compares their names
        socket.gethostname = lambda: environment["NCCL_HOSTID"]
    if environment.get("BENCH_NULL"):
        importlib.import_module("nothing").install()
    runpy.run_path(job["script"], run_name="__main__")


def cap(size: int) -> None:
    """Let this process have that many bytes of its GPU, or of the host's memory if there is no GPU."""
    import torch

    if torch.cuda.is_available():
        device = int(os.environ.get("LOCAL_RANK", "0"))
        most = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, size / most), device)
    else:
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def attend(pids: list[int], limit: float) -> dict[str, Any]:
    """Wait for all processes of a job, and end those that outlive a failed one or the limit."""
    began, ends, starter = time.monotonic(), time.monotonic() + limit, os.getppid()
    statuses: dict[int, int] = {}
    while len(statuses) < len(pids) and time.monotonic() < ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            if os.getppid() != starter:  # who asked is gone
                break
            time.sleep(0.02)
            continue
        if pid in pids:
            statuses[pid] = os.waitstatus_to_exitcode(status)
            if statuses[pid]:
                ends = min(ends, time.monotonic() + GRACE)
    late = [pid for pid in pids if pid not in statuses]
    for pid in pids:  # also what a process left behind: workers of its loader
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    for pid in late:
        os.waitpid(pid, 0)
    return {
        "statuses": [statuses.get(pid) for pid in pids],
        "late": [pids.index(pid) for pid in late],
        "seconds": time.monotonic() - began,
    }


if __name__ == "__main__":
    main()
