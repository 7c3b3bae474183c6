"""What is known of two runs that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..dataclass import dataclass, field
from .found import Check, Row


@dataclass(frozen=True)
class Evidence:
    """What is known of two runs that differ.

    Attributes:
        first: the first loss or gradient norm that differs.
        checks: by name: losses, gradients, output, files.
        processes: of the rewritten script.
        losses: of both, by backward.
        facts: what the original told of itself.
        source: all that the rewritten program consists of.
        precision, batch, batchnorm, accumulate: of the rewritten run.
        itself: where the original differed from itself in a second run; "" if it did not, `None` if it was run once.
        dropout: whether dropout was left on.
        assumptions: what the conversion rests on: "train.py:12 DST104".
        device: "cpu" or "cuda".
    """

    first: Row | None
    checks: Mapping[str, Check]
    processes: int
    losses: tuple[Sequence[float], Sequence[float]] = ((), ())
    facts: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    precision: str = "fp32"
    batch: str = "global"
    batchnorm: str = "exact"
    accumulate: int = 1
    itself: str | None = None
    dropout: bool = True
    assumptions: Sequence[str] = ()
    device: str = "cpu"

    def differs(self, name: str) -> bool:
        """Whether one of the checks found something."""
        return name in self.checks and not self.checks[name].equal

    def only(self, name: str) -> bool:
        """Whether just this check found something."""
        return self.differs(name) and not any(self.differs(other) for other in self.checks if other != name)

    def starts(self) -> bool:
        """Whether the very first loss differs."""
        losses = self.checks.get("losses")
        return bool(losses and losses.rows and losses.rows[0].index == 0)
