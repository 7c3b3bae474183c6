"""How far rounding alone carries a training: the original is run twice, once with its weights moved by a last digit.

A training amplifies any change: a maximum whose place flips, a small batch that is normalised, a step of Adam on a
gradient that is all rounding. What a conversion does differently is told from that by its size at the same step.
"""

from __future__ import annotations

import math
from dataclasses import replace

from .found import Check, Row
from .numbers import Tolerance
from .outcome import Done, Outcome, compared

SMALL = 1e-2  # a first difference that is larger is none of rounding
FACTOR = 30.0  # the rewritten run rounds at every step, the nudged one differs by its start
AHEAD = 4  # steps
CHANCE = 1e-3  # what differs by more at its first value does not repeat itself, nudged or not

BYTES = " bytes"  # how a file stands in a table that is compared byte by byte, such as a picture

EXACT = Tolerance(0.0, 0.0, 0.0)


def may_be_rounding(outcome: Outcome) -> bool:
    """Whether a difference is small enough where it begins to be asked for."""
    row = outcome.beginning
    return row is not None and (row.difference < SMALL or row.original.endswith(BYTES))


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
        forgiven = [row for row in check.rows if is_rounding(row, beside)]
        if not forgiven:
            continue
        check.rows = [row for row in check.rows if row not in forgiven]
        check.differ -= len(forgiven)
        worst = max(forgiven, key=lambda row: (math.isfinite(row.difference), row.difference))
        check.worst = check.rows[0] if check.rows else replace(worst, excess=1.0)
        check.notes.append(
            f"{len(forgiven)} beyond the plain tolerance as in the original itself, whose values a last digit of its "
            f"weights moves by {reach(beside, worst):.1e}"
        )
        outcome.forgiven += len(forgiven)
    rest = [check.rows[0] for check in outcome.checks if check.rows and check.name in ("losses", "gradients")]
    if outcome.first not in rest:
        outcome.first = min(rest, key=lambda row: row.index, default=None)


def is_rounding(row: Row, beside: Check) -> bool:
    """Whether the original differs from itself alike: by a number, or as a text that it does not repeat either."""
    if math.isfinite(row.difference):
        return row.difference <= FACTOR * reach(beside, row)
    return row.original.endswith(BYTES) and any(other.what == row.what for other in beside.rows)


def reach(check: Check, row: Row) -> float:
    """The largest finite difference of the original from itself until twice as many steps; of files, anywhere.

    When a change begins to grow is chance: a maximum flips some steps earlier or later.
    """
    until = math.inf if check.name == "files" else AHEAD + 2 * row.index
    rows = [other for other in check.rows if other.index <= until]
    return max((other.difference for other in rows if math.isfinite(other.difference)), default=0.0)
