"""What usually causes a difference, told by where it shows first and by what the runs say of themselves."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import pairwise

from .evidence import Evidence
from .found import Row
from .losses import BY_PROCESS
from .numbers import difference
from .output import MISSING

RANDOM = r"\bRandom\w+\(|\brandom_?(?:crop|flip|erasing)|RandAugment|AutoAugment|DropPath|drop_path"
SMOOTH = 30.0  # rounding that a training amplifies grows from step to step by less than this
MOST = 4  # causes that are told


Cause = Callable[[Evidence], "str | None"]


def itself(seen: Evidence) -> str | None:
    """The original is not deterministic."""
    if seen.itself:
        return (
            f"the original differs from itself when it is run twice ({seen.itself}): seed what is drawn from the clock "
            "or the system, and see torch.use_deterministic_algorithms"
        )
    return None


def dropout(seen: Evidence) -> str | None:
    """Dropout draws another mask in each process."""
    if seen.dropout and seen.facts.get("dropout") and not seen.only("output"):
        return (
            "dropout: each process draws masks for its own slice, so runs are equal in distribution only; "
            "--no-dropout switches it off in both"
        )
    return None


def augmentation(seen: Evidence) -> str | None:
    """Random augmentation draws from a private stream."""
    if re.search(RANDOM, seen.source):
        return (
            "random augmentation or dropped layers: drawn by each process for its own rows; leave them out to compare"
        )
    return None


def batch_norm(seen: Evidence) -> str | None:
    """Statistics of slices."""
    if seen.batchnorm == "local" and "BatchNorm" in seen.source:
        return "--batchnorm local: each process normalises its slice by itself; exact is the default"
    return None


def options(seen: Evidence) -> str | None:
    """Options that make it another run."""
    if seen.batch == "per-device":
        return "--batch per-device: each process draws batches of its own, which is another run by choice"
    if seen.accumulate > 1:
        return f"accumulate={seen.accumulate}: the run is that of a larger batch, not equal line by line"
    return None


def precision(seen: Evidence) -> str | None:
    """Reduced precision."""
    if seen.precision != "fp32":
        return f"{seen.precision} rounds each slice before it is added: compare in fp32 first (--precision fp32)"
    return None


def amplified(seen: Evidence) -> str | None:
    """Rounding that grows step by step."""
    losses = seen.checks.get("losses")
    if losses is None or not losses.rows or losses.rows[0].index < 3:
        return None
    start = losses.rows[0].index
    far = [difference(a, b) for a, b in zip(seen.losses[0][: start + 1], seen.losses[1][: start + 1])]
    known = [x for x in far if x > 0]
    steps = list(pairwise(known))
    if len(known) > 2 and all(later / earlier < SMOOTH for earlier, later in steps[-3:]):
        return (
            f"rounding that the training amplifies: differences grew from {known[0]:.0e} at backward "
            f"{far.index(known[0]) + 1} to {far[-1]:.0e} without a jump; --steps {start} compares what comes before"
        )
    return None


def told_only(seen: Evidence) -> str | None:
    """Losses differ, and no gradient does."""
    gradients = seen.checks.get("gradients")
    if not seen.differs("losses") or gradients is None or not (gradients.compared and gradients.equal):
        return None
    if not seen.starts() or len(seen.losses[0]) != len(seen.losses[1]):
        return None
    return (
        "all gradients are equal, so both train alike; the loss is that of one process's rows where it is printed or "
        "recorded: runtime.mean or runtime.sum around it"
    )


def forward(seen: Evidence) -> str | None:
    """The first loss differs: before anything was trained."""
    if not seen.starts() or seen.first is None:
        return None
    ratio = factor(seen.checks["losses"].rows[0], seen.processes)
    if ratio:
        return (
            f"{ratio}: a sum over the batch, or a mean, that is one process's own; reduce it with runtime.sum or .mean"
        )
    return (
        "the first loss differs, before any step: another batch or order of it, initial weights drawn apart, a loss of "
        "one process's rows that is not reduced, or BatchNorm over a slice"
    )


def gradients(seen: Evidence) -> str | None:
    """Losses agree up to there, gradients do not."""
    if seen.first is None or not seen.first.what.startswith("gradient"):
        return None
    scale = factor(seen.first, seen.processes)
    told = f" ({scale})" if scale else ""
    return (
        f"the loss of that step is equal and its gradient is not{told}: gradients that are not averaged over "
        "processes, clipping before they are, a part of the loss that is not reduced, or parameters that "
        "runtime.prepare was not given"
    )


def optimizer(seen: Evidence) -> str | None:
    """Losses and gradients agree, then the next loss differs."""
    if seen.first is None or seen.first.what.startswith("gradient") or seen.starts():
        return None
    if seen.differs("gradients") and seen.checks["gradients"].rows[0].index < seen.first.index:
        return None
    return (
        "all is equal up to the step before: the state of the optimizer or its learning rate, another batch drawn from "
        "there on (a generator that one process alone moved), running statistics, or random numbers in the forward"
    )


def printed(seen: Evidence) -> str | None:
    """Only what is printed differs."""
    if not seen.differs("output") or seen.first is not None:
        return None
    row = seen.checks["output"].rows[0]
    if row.original == MISSING:
        return "lines that the original does not print: another process prints too (print under runtime.is_main())"
    if row.rewritten == MISSING:
        return "lines are missing: printed by a process that is silent, or on a condition that its own rows decide"
    ratio = factor(row, seen.processes)
    more = f" ({ratio})" if ratio else ""
    return f"losses are equal and what is printed is not{more}: a printed number that is one process's own, not reduced"


def files(seen: Evidence) -> str | None:
    """Only files differ."""
    if not seen.only("files"):
        return None
    return (
        "only files differ: saved by a process for itself (runtime.save writes once), a state that is not made whole "
        "(runtime.state_dict), or a name or content that holds a time"
    )


def length(seen: Evidence) -> str | None:
    """One side made more steps."""
    losses = seen.checks.get("losses")
    if losses is None:
        return None
    uneven = any(row.what == BY_PROCESS for row in losses.rows)
    if len(seen.losses[0]) == len(seen.losses[1]) and not uneven:
        return None
    return "the number of backward calls differs: a loader that is not sharded or pads, or an end decided by a process"


def assumed(seen: Evidence) -> str | None:
    """The conversion stated assumptions."""
    if not seen.assumptions:
        return None
    some = ", ".join(seen.assumptions[:4]) + (" …" if len(seen.assumptions) > 4 else "")
    return f"what the conversion assumes, told by distify rewrite --diff: {some}"


def nondeterminism(seen: Evidence) -> str | None:
    """The original may differ from itself."""
    if seen.itself is None:
        return "the original may not repeat itself: --twice runs it once more to tell"
    return None


CAUSES: tuple[Cause, ...] = (
    itself,
    options,
    batch_norm,
    precision,
    dropout,
    length,
    amplified,
    gradients,
    told_only,
    forward,
    optimizer,
    augmentation,
    printed,
    files,
    assumed,
    nondeterminism,
)


def causes(seen: Evidence) -> list[str]:
    """What may be the cause, the likeliest first."""
    found = [text for cause in CAUSES if (text := cause(seen)) is not None]
    last = nondeterminism(seen)
    if last is not None and len(found) > MOST:
        return [*found[: MOST - 1], last]
    return found[:MOST]


def factor(row: Row, processes: int) -> str | None:
    """A ratio of two values that tells of the number of processes."""
    try:
        a, b = float(row.original), float(row.rewritten)
    except ValueError:
        return None
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return None
    for name, value in (
        (f"{processes} times the original", processes),
        (f"1/{processes} of the original", 1 / processes),
    ):
        if abs(b / a - value) < 0.02 * value:
            return name
    return None
