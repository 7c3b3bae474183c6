"""What a comparison found: rows of a table, and one summary for each thing that was compared."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..dataclass import dataclass, field, replace
from .numbers import difference

KEPT = 20_000  # differing rows that are kept of each check; all are counted
NOTHING = 1e-8  # a value that is smaller is taken for a zero that is rounded


@dataclass(frozen=True)
class Row:
    """One value of both runs.

    Attributes:
        what: the value: "loss of backward 12", "line 7".
        original, rewritten: as shown.
        difference: relative; infinite where texts differ or one is missing.
        excess: in units of what is allowed: equal up to 1.
        index: position among its kind.
        like: what it has in common with its like: those of other steps, or of the same text in other lines.
        apart: the difference itself; infinite as the relative one is.
        scale: size of the original value.
        unit: of the last digit that was printed; 0 for what was not printed.
        also: other values of the same line that differ.
    """

    what: str
    original: str
    rewritten: str
    difference: float = math.inf
    excess: float = math.inf
    index: int = 0
    like: str = ""
    apart: float = math.inf
    scale: float = 0.0
    unit: float = 0.0
    also: tuple[Row, ...] = ()

    @property
    def moved(self) -> float:
        """The difference in units of the original value, which says how much it moved, if it became huge as well."""
        return self.apart / max(self.scale, NOTHING)

    @property
    def flips(self) -> bool:
        """Whether printed values differ by one unit of their last digit."""
        return 0 < self.apart <= self.unit * (1 + 1e-6)

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
        noise: values that differ and are times or rates by their words.
        rounded: values that differ by one unit of the last printed digit.
        digits: by what these have in common with their like, how many such units all of them are large.
    """

    name: str
    unit: str
    compared: int = 0
    differ: int = 0
    rows: list[Row] = field(default_factory=list)
    worst: Row | None = None
    largest: float = 0.0
    notes: list[str] = field(default_factory=list)
    noise: list[Row] = field(default_factory=list)
    rounded: list[Row] = field(default_factory=list)
    digits: dict[str, float] = field(default_factory=dict)

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

    def put_back(self, rows: Iterable[Row]) -> None:
        """Take values that were taken for equal for different after all."""
        found = [replace(row, excess=math.inf) for row in rows]
        self.differ += len(found)
        self.rows = sorted([*self.rows, *found], key=lambda row: row.index)[:KEPT]
        self.worst = self.rows[0] if found else self.worst

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return self.differ == 0


def row_of(
    what: str, values: tuple[float, float], texts: tuple[str, str], excess: float, index: int, like: str = ""
) -> Row:
    """The row of two numbers.

    Args:
        what: the value.
        values: of the original and of the rewritten run.
        texts: how they are shown.
        excess, index, like: as in `Row`.
    """
    a, b = values
    apart = 0.0 if a == b or (math.isnan(a) and math.isnan(b)) else abs(a - b)
    known = math.isfinite(apart)
    return Row(
        what, *texts, difference(a, b), excess, index, like, apart if known else math.inf, abs(a) if known else 0.0
    )
