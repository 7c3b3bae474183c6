"""Starts the processes of one measurement and reads what they wrote."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
POISONED = 77
PRINTED = re.compile(r"^step (\d+) loss (\S+)$", re.MULTILINE)


class Failed(Exception):
    """The processes of a measurement did not end well; the text says how."""


@dataclass
class Outcome:
    """What the processes of one measurement wrote.

    Attributes:
        meters: of each process, see `meter.py`.
        losses: printed by the first process, by step.
        seconds: from the start of the processes to their end.
    """

    meters: list[dict[str, Any]]
    losses: dict[int, float]
    seconds: float


@dataclass
class Starter:
    """A process that imported modules and forks training processes; started when it is first asked."""

    modules: tuple[str, ...]
    environment: Mapping[str, str]
    process: subprocess.Popen[str] | None = None

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Run a job, and wait for its end."""
        if self.process is None:
            command = [sys.executable, str(HERE / "preload.py"), *self.modules]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={**self.environment})
            self._read()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"importing {', '.join(self.modules) or 'nothing'} ended with status {self.process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End it."""
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()
            self.process = None


@dataclass
class Launcher:
    """Runs scripts on several processes of this machine.

    Attributes:
        work: folder for what they write.
        share: all processes use one GPU, as machines of their own to NCCL; for a trial, not for figures.
        fresh: import everything anew in each process.
        environment: for all processes, beside this one's.
    """

    work: Path
    share: bool = False
    fresh: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    starters: dict[tuple[str, ...], Starter] = field(default_factory=dict)
    poisoned: set[tuple[str, ...]] = field(default_factory=set)

    def run(
        self,
        script: Path,
        argv: Sequence[str],
        world: int,
        modules: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        limit: float = 300.0,
    ) -> Outcome:
        """Run a script and wait for its end.

        Args:
            script: what all processes run.
            argv: its arguments.
            world: number of processes; one is started as by hand, more as by torchrun.
            modules: to be imported ahead.
            environment: for the processes, beside this one's.
            limit: seconds after which they are ended.

        Raises:
            Failed: a process failed, or the time was over.
        """
        output, meter = self.work / "output", self.work / "meter"
        for file in self.work.glob("meter.*"):
            file.unlink()
        members = self.members(world)
        if environment and environment.get("BENCH_NULL"):
            members = members[:1]
        mine = {"BENCH_METER": str(meter), "BENCH_PATH": os.pathsep.join([str(HERE), str(HERE / "plain")])}
        mine |= {**self.environment, **(environment or {})}
        job = {
            "script": str(script),
            "argv": list(argv),
            "environments": [{**mine, **more} for more in members],
            "folder": str(self.work),
            "output": str(output),
            "limit": limit,
        }
        answer = self._ask(() if self.fresh or modules in self.poisoned else modules, job)
        if POISONED in answer["statuses"]:
            self.poisoned.add(modules)
            answer = self._ask((), job)
        if any(answer["statuses"]) or answer["late"]:
            raise Failed(self._told(answer, limit))
        meters = [json.loads(Path(f"{meter}.{rank}").read_text()) for rank in range(len(members))]
        printed = Path(f"{output}.0.out").read_text(errors="replace")
        losses = {int(step): float(loss) for step, loss in PRINTED.findall(printed)}
        return Outcome(meters, losses, answer["seconds"])

    def members(self, world: int) -> list[dict[str, str]]:
        """What torchrun would add to the environment of each process."""
        if world == 1:
            return [{}]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        found = []
        for rank in range(world):
            local = 0 if self.share else rank
            member = {
                "RANK": str(rank),
                "LOCAL_RANK": str(local),
                "GROUP_RANK": str(rank) if self.share else "0",
                "WORLD_SIZE": str(world),
                "LOCAL_WORLD_SIZE": "1" if self.share else str(world),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "TORCHELASTIC_RUN_ID": "bench",
            }
            if self.share:
                member |= {"NCCL_HOSTID": f"node{rank}", "NCCL_SOCKET_IFNAME": "lo"}
            found.append(member)
        return found

    def close(self) -> None:
        """End what was started."""
        for starter in self.starters.values():
            starter.close()
        self.starters.clear()

    def _ask(self, modules: tuple[str, ...], job: Mapping[str, Any]) -> dict[str, Any]:
        # CUDA's driver must not be started by a question about it: NVML answers it.
        base = {**os.environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "1", "PYTHONHASHSEED": "0"}
        starter = self.starters.setdefault(modules, Starter(modules, base))
        try:
            return starter.ask(job)
        except Failed:
            del self.starters[modules]
            raise

    def _told(self, answer: Mapping[str, Any], limit: float) -> str:
        if answer["late"] and not any(answer["statuses"]):
            which = answer["late"][0]
            head = f"took more than {limit:.0f} s"
        else:
            which = next(rank for rank, status in enumerate(answer["statuses"]) if status)
            head = f"process {which} ended with status {answer['statuses'][which]}"
        error = Path(f"{self.work / 'output'}.{which}.err").read_text(errors="replace")
        return f"{head}: {error[-3000:].strip()}"
