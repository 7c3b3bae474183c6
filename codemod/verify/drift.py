"""How far rounding alone carries a training: the original is run twice, once with its weights moved by a last digit.

A training amplifies any change: a maximum whose place flips, a small batch that is normalised, a step of Adam on a
gradient that is all rounding. What a conversion does differently is told from that by its size at the same step.
"""

from __future__ import annotations

import math

from ..dataclass import replace
from .found import Check, Row
from .numbers import Tolerance
from .outcome import Done, Outcome, compared
from .saved import BYTES, listed

SMALL = 1e-2  # a first difference that is larger is none of rounding
FACTOR = 30.0  # the rewritten run rounds at every step, the nudged one differs by its start
AHEAD = 4  # steps
FAR = 3.0  # times what a value of the original moves, if that is much
NEAR = 1e-6  # values that differ by less are rounded zeros, whose size is chance
CHANCE = 1e-3  # what differs by more at its first value does not repeat itself, nudged or not

EXACT = Tolerance(0.0, 0.0, 0.0)


def may_be_rounding(outcome: Outcome) -> bool:
    """Whether a difference is small enough where it begins to be asked for."""
    row = outcome.beginning
    return row is not None and (row.difference < SMALL or row.apart < NEAR or row.original.endswith(BYTES))


def drift_of(original: Done, nudged: Done, ignore: str | None) -> Outcome:
    """All that two runs of the original do differently."""
    return compared("original", original, nudged, EXACT, ignore)


def unsteady(drift: Outcome) -> str:
    """Where the original does not repeat itself from the start, "" if it does."""
    for check in drift.checks:
        if check.rows and check.rows[0].index == 0 and check.rows[0].difference > CHANCE and check.name != "files":
            return check.rows[0].what
    return ""


def forgive(outcome: Outcome, drift: Outcome) -> None:
    """Take for equal what differs by no more than rounding makes of the original at the same place."""
    if unsteady(drift):
        return  # it tells nothing of rounding
    known = {check.name: check for check in drift.checks}
    for check in outcome.checks:
        beside = known.get(check.name)
        if beside is None or check.differ > len(check.rows):  # more differ than were kept
            continue
        moves = Moves(beside)
        left = [rest for row in check.rows if (rest := left_of(row, moves)) is not None]
        count = len(check.rows) - len(left)
        forgiven = [row for row in check.rows if left_of(row, moves) is None]
        check.rows = left
        if not count:
            continue
        check.differ -= count
        worst = max(forgiven, key=lambda row: (math.isfinite(row.difference), row.difference))
        check.worst = check.rows[0] if check.rows else replace(worst, excess=1.0, also=())
        far = moves.reach(worst)
        check.notes.append(
            f"{count} beyond the plain tolerance as in the original itself, whose values a last digit of its "
            f"weights moves by {f'{far:.1e}' if far else 'a unit of their last printed digit'}"
        )
        names = [row.what for row in forgiven if row.original.endswith(BYTES)]
        if names:
            check.notes.append(f"what is in {listed(names)} was not compared: the original does not repeat its bytes")
        outcome.forgiven += count
    ahead = [check.rows[0] for check in outcome.checks if check.rows and check.name in ("losses", "gradients")]
    if outcome.first not in ahead:
        outcome.first = min(ahead, key=lambda row: row.index, default=None)


class Moves:
    """How far values of the original moved, each beside its like: a loss beside losses, a number of a line beside those
    of lines with the same text, a tensor beside itself.

    Args:
        check: of the drift.
    """

    def __init__(self, check: Check) -> None:
        self.anywhere = check.name == "files"
        self.rows: dict[str, list[Row]] = {}
        for line in check.rows:
            for row in (line, *line.also):
                self.rows.setdefault(row.like or row.what, []).append(row)

    def of(self, row: Row) -> list[Row]:
        """What moved until twice as many steps; of files, anywhere.

        When a change begins to grow is chance: a maximum flips some steps earlier or later.
        """
        until = math.inf if self.anywhere else AHEAD + 2 * row.index
        return [other for other in self.all_of(row) if other.index <= until]

    def all_of(self, row: Row) -> list[Row]:
        """What moved of its like, at any step."""
        return self.rows.get(row.like or row.what, [])

    def reach(self, row: Row) -> float:
        """How far that is at most, in units of the original value; one unit of the last printed digit is no move."""
        return max((other.moved for other in self.of(row) if not other.flips and other.apart < math.inf), default=0.0)


def left_of(row: Row, moves: Moves) -> Row | None:
    """What differs of a line beyond rounding; `None` if nothing does."""
    left = [one for one in (replace(row, also=()), *row.also) if not is_rounding(one, moves)]
    return replace(left[0], also=tuple(left[1:])) if left else None


def is_rounding(row: Row, moves: Moves) -> bool:
    """Whether the original differs from itself alike: by a number, or as a text that it does not repeat either."""
    if not math.isfinite(row.moved):
        return row.original.endswith(BYTES) and bool(moves.of(row))
    if row.flips and any(other.apart < math.inf for other in moves.of(row)):
        return True
    reach = moves.reach(row)
    if row.apart < NEAR:
        return row.moved <= FACTOR * reach
    return row.moved <= max(min(FACTOR * reach, SMALL), FAR * reach)
