"""Fits the formula of `scaling_model.py` to measured steps, by least squares.

Sought are logarithms (of the speed per model, the bandwidth inside a node, the host's and the copies' seconds per
backend) and logits (of the overlap per backend). Few points are measured, so each sought number also has an expected
value with a spread: what no measurement speaks of stays there, and is told as assumed. Minimised by Levenberg's and
Marquardt's method: the sum of squares of ln(predicted/measured)/NOISE and of (sought − expected)/spread.

Source: Marquardt, "An Algorithm for Least-Squares Estimation of Nonlinear Parameters" (1963).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scaling_model import Fitted, Machine, Task, predict

NOISE = 0.03  # relative spread of a measured step
LEARNT = 0.5  # of the expected spread must be left at most for a number to count as measured
# Names of contenders that run a backend's way of sharing, the runtime's own first.
CONTENDERS = {
    "single": ("ours", "hand"),
    "ddp": ("ours-ddp", "hand-ddp"),
    "fsdp": ("ours-fsdp", "hand-fsdp2-local", "hand-fsdp2-tuned", "hand-fsdp2"),
    "zero2": ("ours-zero2", "hand-zero2"),
    "zero3": ("ours-zero3", "hand-zero3"),
}
# Seconds of Python per layer and batch that are expected, and by what factor that may be wrong.
HOST = {"single": (1e-3, 1.5), "ddp": (1e-3, 1.5), "fsdp": (2e-3, 2.5), "zero2": (1.5e-3, 2.5), "zero3": (1e-2, 4.0)}
OVERLAP = 0.8
# Seconds for a parameter: gathered, it is copied twice, its gradient once or twice, of 2 and 4 bytes.
COPIES = (7e-12, 3.0)
TASKS = {
    "gpt2-124m": Task("gpt2-124m", 124.4e6, 12, 1024, 16),
    "gpt2-774m": Task("gpt2-774m", 774.0e6, 36, 1024, 8),
    "llama-7b": Task("llama-7b", 6.74e9, 32, 2048, 2),
}


@dataclass(frozen=True)
class Point:
    """A measured step: of a backend ("single" for one process), its GPUs, the samples of each, seconds."""

    task: Task
    backend: str
    gpus: int
    seconds: float


@dataclass(frozen=True)
class Sought:
    """A number that is fitted.

    Attributes:
        name: what it is, and of what.
        value: found.
        expected: before anything was measured; `None` if that says nothing.
        learnt: whether measurements decide it.
        unit: for people.
    """

    name: str
    value: float
    expected: float | None
    learnt: bool
    unit: str


@dataclass(frozen=True)
class Fit:
    """Everything that was found, and by how much it is off at each point."""

    fitted: Fitted
    machine: Machine
    sought: list[Sought]
    errors: list[tuple[Point, float]]


def read(files: Iterable[Path], tasks: dict[str, Task], precision: str) -> list[Point]:
    """Measured steps from JSON lines, as the throughput benchmark writes them.

    Of each backend the first contender of `CONTENDERS` that was measured counts. Keys that are read: `model`,
    `contender`, `world`, `precision`, `batch` (samples of a process), `again` (see `Task`), and `rate` (tokens or
    samples per second, all processes together) or `p50` (seconds of a step); rows with an `error`, and those that
    accumulate or print each step, are left out.
    """
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines() if line]
    rows = [row for row in rows if row["precision"] == precision and row["model"] in tasks and not row.get("error")]
    rows = [row for row in rows if row.get("accumulate", 1) == 1 and row.get("log_every") != 1]  # which costs a little
    points = []
    for model in tasks:
        for backend, names in CONTENDERS.items():
            mine = [row for row in rows if row["model"] == model and (row["world"] == 1) == (backend == "single")]
            chosen = next((name for name in names if any(row["contender"] == name for row in mine)), None)
            points += [_point(row, tasks[model], backend) for row in mine if row["contender"] == chosen]
    return points


def _point(row: dict[str, Any], task: Task, backend: str) -> Point:
    task = replace(task, batch=row["batch"], again=row.get("again"))
    units = row["world"] * row["batch"] * task.tokens
    seconds = units / row["rate"] if row.get("rate") else row["p50"]
    return Point(task, backend, row["world"], seconds)


@dataclass
class _Number:
    """One coordinate of the search."""

    name: str
    start: float
    expected: float | None
    spread: float
    unit: str
    bounded: bool = False  # a logit, else a logarithm

    def inward(self, value: float) -> float:
        return math.log(value / (1 - value)) if self.bounded else math.log(value)

    def outward(self, x: float) -> float:
        return 1 / (1 + math.exp(-x)) if self.bounded else math.exp(x)


def fit(points: Sequence[Point], machine: Machine) -> Fit:
    """The numbers that fit best.

    Args:
        points: at least one of each model.
        machine: its `inside` is what is expected, the rest is taken as it is.
    """
    numbers = _numbers(points, machine)
    x = np.array([n.inward(n.start) for n in numbers])
    centre = np.array([0.0 if n.expected is None else n.inward(n.expected) for n in numbers])
    weight = np.array([0.0 if n.expected is None else 1 / n.spread for n in numbers])

    def off(x: np.ndarray) -> np.ndarray:
        fitted, found = _apply(numbers, x, machine)
        errors = [_error(point, fitted, found) / NOISE for point in points]
        return np.concatenate([np.array(errors), (x - centre) * weight])

    x = _marquardt(off, x)
    slope = _slope(off, x)
    left = np.sqrt(np.diag(np.linalg.pinv(slope.T @ slope)))
    fitted, found = _apply(numbers, x, machine)
    sought = [
        Sought(n.name, n.outward(x[k]), n.expected, n.expected is None or left[k] < LEARNT * n.spread, n.unit)
        for k, n in enumerate(numbers)
    ]
    return Fit(fitted, found, sought, [(point, math.exp(_error(point, fitted, found)) - 1) for point in points])


def _error(point: Point, fitted: Fitted, machine: Machine) -> float:
    backend = "ddp" if point.backend == "single" else point.backend
    return math.log(predict(point.task, backend, point.gpus, machine, fitted).step / point.seconds)


def _numbers(points: Sequence[Point], machine: Machine) -> list[_Number]:
    found = [_Number("inside", machine.inside, machine.inside, 0.4, "B/s")]
    for model in dict.fromkeys(point.task.name for point in points):
        best = max(6 * p.task.params * p.task.batch * p.task.tokens / p.seconds for p in points if p.task.name == model)
        found.append(_Number(f"speed {model}", best * 1.02, None, 1.0, "FLOP/s"))
    for backend in dict.fromkeys(point.backend for point in points):
        expected, factor = HOST[backend]
        mine = [p.seconds / p.task.layers for p in points if p.backend == backend]
        start = min(mine) if backend in ("fsdp", "zero3") else expected  # what holds it up, if anything does
        found.append(_Number(f"host {backend}", start, expected, math.log(factor), "s/layer"))
        if backend != "single":
            found.append(_Number(f"overlap {backend}", OVERLAP, OVERLAP, 1.5, "", bounded=True))
        if backend not in ("single", "ddp"):
            found.append(_Number(f"copies {backend}", COPIES[0], COPIES[0], math.log(COPIES[1]), "s/parameter"))
    return found


def _apply(numbers: Sequence[_Number], x: np.ndarray, machine: Machine) -> tuple[Fitted, Machine]:
    fitted = Fitted({}, {}, {}, {})
    for number, value in zip(numbers, x, strict=True):
        kind, _, of = number.name.partition(" ")
        if kind == "inside":
            machine = replace(machine, inside=number.outward(value))
        else:
            getattr(fitted, kind)[of] = number.outward(value)
    return fitted, machine


def _slope(function: Any, x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Derivatives, one column per coordinate."""
    columns = []
    for k in range(len(x)):
        shift = np.zeros_like(x)
        shift[k] = step
        columns.append((function(x + shift) - function(x - shift)) / (2 * step))
    return np.stack(columns, 1)


def _marquardt(function: Any, x: np.ndarray, rounds: int = 300) -> np.ndarray:
    """The minimum of the sum of squares near `x`."""
    damping, now = 1e-2, function(x)
    for _ in range(rounds):
        slope = _slope(function, x)
        square = slope.T @ slope
        move = np.linalg.solve(square + damping * np.diag(np.diag(square) + 1e-9), -slope.T @ now)
        new = function(x + np.clip(move, -1.0, 1.0))
        if new @ new < now @ now:
            x, gain, now, damping = x + np.clip(move, -1.0, 1.0), now @ now - new @ new, new, damping / 3
            if gain < 1e-10:
                break
        else:
            damping *= 4
            if damping > 1e9:
                break
    return x
