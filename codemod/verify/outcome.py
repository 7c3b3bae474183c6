"""What a run left, and what comparing two of them gave."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..dataclass import dataclass, field, replace
from .found import Check, Row
from .losses import Trace, compare_losses, compare_norms, first
from .mirror import Mirror
from .numbers import Tolerance
from .output import MISSING, compare_output
from .saved import compare_files


@dataclass(frozen=True)
class Done:
    """What a run left.

    Attributes:
        output: standard output of the process that speaks.
        others: standard output of the other processes, by rank.
        trace: losses and gradient norms.
        facts: what the process told of itself.
        mirror: the scratch copy in which it ran.
        seconds: that it took.
    """

    output: str
    others: Mapping[int, str]
    trace: Trace
    facts: Mapping[str, Any]
    mirror: Mirror
    seconds: float = 0.0


@dataclass
class Outcome:
    """What came of verifying one conversion.

    Attributes:
        name: the backend.
        how: processes and device, for the report.
        checks: what was compared; empty if it could not be.
        unable: why it could not be compared, in lines; the first is the reason.
        skipped: whether it was not tried, because something is not installed here.
        first: the first loss or gradient norm that differs.
        causes: what usually causes such a difference.
        notes: what the user should know of how it was run.
        losses: of the original and of the rewritten run.
        allowed: the tolerance, for the report.
        forgiven: how many values differ by more, and by no more than rounding makes of the original.
        by_hand: whether what was run does not use the runtime.
    """

    name: str
    how: str = ""
    checks: list[Check] = field(default_factory=list)
    unable: list[str] = field(default_factory=list)
    skipped: bool = False
    first: Row | None = None
    causes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    losses: tuple[Sequence[float], Sequence[float]] = ((), ())
    allowed: Tolerance = field(default_factory=Tolerance)
    forgiven: int = 0
    by_hand: bool = False

    @property
    def title(self) -> str:
        """What was compared with the original."""
        return f"{'taken as it is' if self.by_hand else f'rewritten for {self.name}'}{self.how}"

    @property
    def equal(self) -> bool:
        """Whether nothing that was compared differs."""
        return not self.unable and all(check.equal for check in self.checks)

    @property
    def place(self) -> str:
        """Where the runs differ first, in a phrase."""
        return "" if self.beginning is None else self.beginning.what

    @property
    def beginning(self) -> Row | None:
        """The first value that differs."""
        return self.first or next((check.rows[0] for check in self.checks if check.rows), None)


def compared(name: str, original: Done, rewritten: Done, tolerance: Tolerance, ignore: str | None = None) -> Outcome:
    """Compare two runs.

    Args:
        name: of the outcome.
        original, rewritten: what they left.
        tolerance: for all numbers.
        ignore: lines of output that hold this regular expression are left out.
    """
    texts = [
        without(done.output.replace(done.mirror.root, done.mirror.source), ignore) for done in (original, rewritten)
    ]
    steps = len(original.trace.losses)
    output = compare_output(texts[0], texts[1], replace(tolerance, many=tolerance.after(steps).many))
    for rank, text in rewritten.others.items():
        for number, line in enumerate(without(text, ignore).splitlines()):
            output.add(Row(f"process {rank} prints line {number + 1}", MISSING, line, index=number))
    losses = compare_losses(original.trace, rewritten.trace, tolerance)
    norms = compare_norms(original.trace, rewritten.trace, tolerance)
    files = compare_files(original.mirror, rewritten.mirror, tolerance, steps)
    checks = [losses, norms, output, files]
    outcome = Outcome(name, checks=checks, first=first(original.trace, checks), allowed=tolerance)
    outcome.losses = original.trace.losses, rewritten.trace.losses
    return outcome


def without(text: str, ignore: str | None) -> str:
    """A text without the lines that hold a regular expression."""
    if ignore is None:
        return text
    return "\n".join(line for line in text.split("\n") if not re.search(ignore, line))
