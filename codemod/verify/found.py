"""What a comparison found: rows of a table, and one summary for each thing that was compared."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

KEPT = 20_000  # differing rows that are kept of each check; all are counted


@dataclass(frozen=True)
class Row:
    """One value of both runs.

    Attributes:
        what: the value: "loss of backward 12", "line 7".
        original, rewritten: as shown.
        difference: relative; infinite where texts differ or one is missing.
        excess: in units of what is allowed: equal up to 1.
        index: position among its kind.
    """

    what: str
    original: str
    rewritten: str
    difference: float = math.inf
    excess: float = math.inf
    index: int = 0

    @property
    def equal(self) -> bool:
        """Whether the values are the same up to rounding."""
        return self.excess <= 1


@dataclass
class Check:
    """One thing that was compared, such as the losses.

    Attributes:
        name: how the report calls it.
        unit: what was counted: "backward call".
        compared: how many values of both were compared.
        differ: how many of them differ.
        rows: those that differ, in their order.
        worst: the value that is nearest to what is not allowed, or farthest beyond.
        largest: relative difference of all numbers.
        notes: what the user should know of the comparison.
    """

    name: str
    unit: str
    compared: int = 0
    differ: int = 0
    rows: list[Row] = field(default_factory=list)
    worst: Row | None = None
    largest: float = 0.0
    notes: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Take in one value."""
        self.compared += 1
        if row.difference < math.inf:
            self.largest = max(self.largest, row.difference)
        if self.worst is None or (row.excess, row.difference) > (self.worst.excess, self.worst.difference):
            self.worst = row
        if not row.equal:
            self.differ += 1
            if len(self.rows) < KEPT:
                self.rows.append(row)

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return self.differ == 0
