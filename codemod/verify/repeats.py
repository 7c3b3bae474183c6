"""Whether a number is noise, told by evidence: what the original itself repeats exactly is none, whatever its label;
what it does not repeat is."""

from __future__ import annotations

import math

from .drift import CHANCE, FACTOR, Moves
from .found import Row
from .outcome import Outcome
from .saved import BYTES, NAME

DIGITS = 4  # that a time needs, in one number or more, not to be repeated by chance
SOME = 3  # digits of each of these numbers
EPSILON = 1e-7  # relative: runs that round differently differ by as much
LIKELY = 0.1  # last digits that may be expected to differ: with fewer, one that does is none of rounding


def doubt_rounding(outcome: Outcome) -> None:
    """Take last digits that differ for different after all where the runs are so close that they hardly could.

    0.831 and 0.832 may be two sides of 0.8315, which is likely if losses differ by 1e-4, and not if by 1e-7.
    """
    checks = {check.name: check for check in outcome.checks}
    if not checks["losses"].compared:
        return
    far = max(EPSILON, checks["losses"].largest, checks["gradients"].largest)
    for check in outcome.checks:
        rows: dict[str, list[Row]] = {}
        for row in check.rounded:
            rows.setdefault(row.like, []).append(row)
        for like, found in rows.items():
            expected = FACTOR * far * check.digits.get(like, math.inf)
            if expected < LIKELY or len(found) > 1 + expected + 3 * math.sqrt(expected):
                check.put_back(found)


def doubt_noise(outcome: Outcome, again: Outcome) -> None:
    """Take numbers that are times by their words for different after all where a second run repeats them exactly."""
    others = {check.name: check for check in again.checks}
    for check in outcome.checks:
        other = others.get(check.name)
        if other is None:
            continue
        moved = {one.like for row in (*other.rows, *other.noise, *other.rounded) for one in (row, *row.also)}
        rows: dict[str, list[Row]] = {}
        for row in check.noise:
            if row.like not in moved and math.isfinite(row.apart):
                rows.setdefault(row.like, []).append(row)
        found = [row for some in rows.values() if told_by(some) for row in some]
        if found:
            check.noise = [row for row in check.noise if row not in found]
            check.put_back(found)
            check.notes.append(f"the original repeats {len(found)} of these exactly, so they are no times")


def told_by(rows: list[Row]) -> bool:
    """Whether numbers have so many digits that they are not the same in two runs by chance."""
    digits = [sum(letter.isdigit() for letter in row.original.lstrip("-0.")) for row in rows]
    return sum(count for count in digits if count >= SOME) >= DIGITS


def may_be_noise(outcome: Outcome) -> bool:
    """Whether all is equal but for numbers or files that the original might not repeat either."""
    trained = [check for check in outcome.checks if check.name in ("losses", "gradients")]
    said = [check for check in outcome.checks if check not in trained]
    if outcome.equal or not all(check.equal for check in trained):
        return False
    return all(check.differ == len(check.rows) and all(map(may_change, check.rows)) for check in said)


def saves_numbers(outcome: Outcome) -> bool:
    """Whether numbers of files differ: where Adam follows a gradient that is all rounding, as that of a bias before
    BatchNorm, a weight goes any way, and nothing else shows it."""
    return any(math.isfinite(row.apart) for check in outcome.checks if check.name == "files" for row in check.rows)


def may_change(row: Row) -> bool:
    """Whether a row compares numbers, files byte by byte, or numbers in their names."""
    return math.isfinite(row.apart) or row.original.endswith(BYTES) or row.like.startswith(NAME)


def excuse(outcome: Outcome, again: Outcome) -> None:
    """Take for equal what the original does not repeat when it is run twice, though it computes the same."""
    others = {check.name: check for check in again.checks}
    if any(others[name].differ for name in ("losses", "gradients")):
        return  # what it prints may differ for that
    for check in outcome.checks:
        if check.equal or check.name not in others:
            continue
        moves = Moves(others[check.name])
        left = [row for row in check.rows if not all(is_restless(one, moves) for one in (row, *row.also))]
        count = len(check.rows) - len(left)
        if count:
            check.rows, check.differ = left, check.differ - count
            check.worst = left[0] if left else None
            check.notes.append(f"{count} are no difference: the original does not repeat them either")


def is_restless(row: Row, moves: Moves) -> bool:
    """Whether the original does not repeat a number, or the like of it, by more than rounding."""
    if not math.isfinite(row.apart):
        return may_change(row) and bool(moves.all_of(row))
    return any(other.difference > CHANCE for other in moves.all_of(row))
