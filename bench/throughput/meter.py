"""Times the steps of a training process. Plain, converted and hand-written scripts call it in the same places.

The environment says what to do, so that a script passes nothing: `BENCH_METER` is the file to write (a folder and name
to which the rank is added), `BENCH_WARMUP` how many first steps are not timed. The timed window is measured as a whole
between two synchronisations; single steps are told apart by CUDA events, which don't hold the GPU up.
"""

from __future__ import annotations

import json
import os
import resource
import time

import torch


class Meter:
    """The clock of one process."""

    def __init__(self) -> None:
        self.file = os.environ.get("BENCH_METER", "")
        self.warmup = int(os.environ.get("BENCH_WARMUP", "5"))
        self.gpu = torch.cuda.is_available()
        self.count = 0
        self.begin = 0.0
        self.events: list[torch.cuda.Event] = []
        self.times: list[float] = []

    def step(self) -> None:
        """One iteration of the training loop has been issued."""
        self.count += 1
        if self.count == self.warmup:
            self._wait()
            self.begin = time.perf_counter()
        if self.count >= self.warmup:
            self._mark()

    def finish(self) -> None:
        """The loop is over: write what was measured."""
        self._wait()
        elapsed = time.perf_counter() - self.begin
        if not self.file or self.count <= self.warmup:
            return
        found = {
            "steps": self.count - self.warmup,
            "elapsed": elapsed,
            "step_times": self._steps(),
            "gpu_peak": torch.cuda.max_memory_allocated() if self.gpu else 0,
            "gpu_reserved": torch.cuda.max_memory_reserved() if self.gpu else 0,
            "host_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        name = f"{self.file}.{os.environ.get('RANK', '0')}"
        with open(name, "w", encoding="utf-8") as out:
            out.write(json.dumps(found))

    def _wait(self) -> None:
        if self.gpu:
            torch.cuda.synchronize()

    def _mark(self) -> None:
        if self.gpu:
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record()
            self.events.append(event)
        else:
            self.times.append(time.perf_counter())

    def _steps(self) -> list[float]:
        """Seconds of each timed step."""
        if self.gpu:
            return [a.elapsed_time(b) / 1000 for a, b in zip(self.events, self.events[1:])]
        return [b - a for a, b in zip(self.times, self.times[1:])]
