"""Rows of results, and what follows from them: medians, equal work, the targets' ratios."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import median

GIB = 2**30
# Contenders round differently (autocast, or parameters cast once), and rounding grows from step to step.
FIRST = {"fp32": 2e-4, "bf16": 3e-3, "fp16": 3e-3}
LAST = 0.1


@dataclass
class Row:
    """One measurement.

    Attributes:
        rate: tokens (GPT) or samples per second, of all processes together.
        p50, p90, p99: seconds of a step.
        gpu_peak, gpu_reserved: largest of the GPUs, bytes.
        host_peak: of all processes together, without their loaders' workers, bytes.
        losses: of the whole batch, by step.
        seconds: that the measurement took, start-up included.
        error: why there is no measurement.
    """

    model: str
    world: int
    contender: str
    precision: str
    accumulate: int
    log_every: int
    batch: int
    steps: int
    repeat: int
    options: list[str] = field(default_factory=list)
    rate: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    gpu_peak: int = 0
    gpu_reserved: int = 0
    host_peak: int = 0
    losses: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""
    card: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    commit: str = ""
    date: str = ""
    command: str = ""

    @property
    def key(self) -> Key:
        """All that is equal in repeats."""
        return (self.model, self.world, self.contender, self.precision, self.accumulate, self.log_every, self.batch)

    def line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))


Key = tuple[str, int, str, str, int, int, int]


@dataclass(frozen=True)
class Medians:
    """Of the repeats of one case."""

    repeats: int
    rate: float
    lowest: float
    highest: float
    p50: float
    p90: float
    p99: float
    gpu_peak: float
    host_peak: float


def read(files: Iterable[Path]) -> list[Row]:
    """The rows of some files; keys that are not known here are left out."""
    known = {item.name for item in fields(Row)}
    rows = []
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            values = {name: value for name, value in json.loads(line).items() if name in known}
            values["losses"] = {int(step): loss for step, loss in values.get("losses", {}).items()}
            rows.append(Row(**values))
    return rows


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which that part of the values lie, between the two nearest."""
    if not values:
        return 0.0
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def medians(rows: Iterable[Row]) -> dict[Key, Medians]:
    """Of each case that was measured, in the order of the rows."""
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        if not row.error:
            groups.setdefault(row.key, []).append(row)
    found = {}
    for key, group in groups.items():
        rates = [row.rate for row in group]
        found[key] = Medians(
            len(group),
            median(rates),
            min(rates),
            max(rates),
            median(row.p50 for row in group),
            median(row.p90 for row in group),
            median(row.p99 for row in group),
            median(row.gpu_peak for row in group),
            median(row.host_peak for row in group),
        )
    return found


@dataclass(frozen=True)
class Check:
    """Whether contenders printed equal losses, and so did the same work.

    Attributes:
        work: model, samples of a batch, batches per step, precision.
        step: the printed step that is compared.
        losses: of each contender, in its first repeat.
        spread: between the largest and the smallest, relative.
        equal: whether that is rounding.
    """

    work: tuple[str, int, int, str]
    step: int
    losses: dict[str, float]
    spread: float
    equal: bool


def checks(rows: Iterable[Row]) -> list[Check]:
    """Compare losses where several contenders did the same work: at the first step, and at the last common one.

    Those with local statistics, that initialise a model anew, or whose collectives do nothing did other work.
    """
    groups: dict[tuple[str, int, int, str], dict[str, dict[int, float]]] = {}
    for row in rows:
        if not row.error and not {"localbn", "meta", "null"} & set(row.contender.split("+")[1:]):
            group = groups.setdefault((row.model, row.batch * row.world, row.accumulate, row.precision), {})
            group.setdefault(f"{row.contender} on {row.world}", row.losses)
    found = []
    for work, printed in groups.items():
        common = sorted(set.intersection(*(set(losses) for losses in printed.values())))
        for step in dict.fromkeys(common[:1] + common[-1:]):
            losses = {name: each[step] for name, each in printed.items()}
            spread = (max(losses.values()) - min(losses.values())) / max(abs(min(losses.values())), 1e-6)
            limit = FIRST[work[3]] if step == 0 else LAST
            found.append(Check(work, step, losses, spread, spread <= limit))
    return found


@dataclass(frozen=True)
class Side:
    """One side of a ratio."""

    contender: str
    world: int
    precision: str = "bf16"
    accumulate: int = 1
    log_every: int = 10


@dataclass(frozen=True)
class Target:
    """A ratio of two medians that is aimed at.

    Attributes:
        models: the first part of their names.
        left, right: what is divided.
        bound: at least that for rates, at most that for memory.
        measure: "rate" or "gpu_peak".
        times: what the right side is multiplied by.
    """

    models: tuple[str, ...]
    left: Side
    right: Side
    bound: float
    measure: str = "rate"
    times: float = 1.0


SMALL, LARGE = ("gpt2-124m", "gpt2-tiny"), ("gpt2-774m",)
ALL = ("gpt2", "convnet", "mlp")


def targets(world: int) -> list[Target]:
    """What is aimed at on that number of processes."""
    ddp, fsdp = Side("ours-ddp", world), Side("ours-fsdp", world)
    one = Side("ours", 1)
    found = [
        Target(ALL, Side("ours", 1, "fp32"), Side("original", 1, "fp32"), 0.99),
        Target(ALL, one, Side("hand", 1), 0.99),
        Target(ALL, Side("ours+compile", 1), Side("hand+compile", 1), 0.99),
        Target(SMALL, Side("ours", 1, "fp16"), one, 0.97),
        Target(SMALL, Side("ours", 1, log_every=1), Side("hand", 1, log_every=1), 0.98),
    ]
    if world == 1:
        return found
    found += [
        Target(ALL, ddp, Side("hand-ddp", world), 0.99),
        Target(ALL, ddp, Side("hand-ddp", world), 1.01, "gpu_peak"),
        Target(SMALL, ddp, Side("accelerate-ddp", world), 1.12),
        Target(SMALL, ddp, Side("fabric-ddp", world), 1.12),
        Target(ALL, Side("ours-ddp+compile", world), Side("hand-ddp+compile", world), 0.99),
        Target(SMALL, fsdp, Side("hand-fsdp2", world), 1.35),
        Target(SMALL, fsdp, Side("accelerate-fsdp2", world), 1.3),
        Target(LARGE, fsdp, Side("hand-fsdp2", world), 1.25),
        Target(LARGE, fsdp, Side("accelerate-fsdp2", world), 1.25),
        Target(SMALL, Side("ours-fsdp+null", world), Side("hand-fsdp2+null", world), 1.35),
        Target(LARGE, Side("ours-fsdp+null", world), Side("hand-fsdp2+null", world), 1.25),
        Target(ALL, Side("ours-zero2+null", world), Side("hand-zero2+null", world), 0.99),
        Target(ALL, Side("ours-zero3+null", world), Side("hand-zero3+null", world), 0.99),
        Target(ALL, Side("ours-zero2", world), Side("hand-zero2", world), 0.99),
        Target(ALL, Side("ours-zero3", world), Side("hand-zero3", world), 0.99),
        Target(SMALL, ddp, one, 0.93, times=float(world)),
        Target(SMALL, fsdp, one, 0.93, times=float(world)),
        Target(SMALL, Side("ours-ddp", world, "fp16"), ddp, 0.97),
        Target(
            SMALL,
            Side("ours-ddp", world, accumulate=8),
            Side("ours-ddp+nowindow", world, accumulate=8),
            1.05,
        ),
        Target(SMALL, Side("ours-ddp", world, log_every=0), Side("hand-ddp", world, log_every=0), 0.99),
        Target(SMALL, Side("ours-ddp", world, log_every=1), Side("hand-ddp", world, log_every=1), 0.98),
    ]
    return found


@dataclass(frozen=True)
class Verdict:
    """A target and what was measured."""

    model: str
    target: Target
    ratio: float

    @property
    def met(self) -> bool:
        """Whether the measured ratio is on the right side of the bound."""
        lower = self.target.measure != "rate"
        return self.ratio <= self.target.bound if lower else self.ratio >= self.target.bound


def verdicts(found: dict[Key, Medians]) -> list[Verdict]:
    """Every target both of whose sides were measured, with the same batch per process."""
    made = []
    for model in dict.fromkeys(key[0] for key in found):
        worlds = sorted({key[1] for key in found if key[0] == model})
        for target in dict.fromkeys(t for world in (worlds or [1]) for t in targets(world)):
            if model.startswith(target.models):
                for batch in dict.fromkeys(key[6] for key in found if key[0] == model):
                    left, right = (found.get(_key(model, side, batch)) for side in (target.left, target.right))
                    if left is not None and right is not None and getattr(right, target.measure):
                        ratio = getattr(left, target.measure) / (getattr(right, target.measure) * target.times)
                        made.append(Verdict(model, target, ratio))
    return made


def _key(model: str, side: Side, batch: int) -> Key:
    return (model, side.world, side.contender, side.precision, side.accumulate, side.log_every, batch)
