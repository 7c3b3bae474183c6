"""Compares texts, as standard output, number by number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from ..phrases import plural
from .found import Check, Row
from .noise import folded, lines_of, without_noise
from .numbers import NUMBER, Tolerance, difference, excess, last_digit, shown

MOST = 2_000_000  # pairs of lines that may be matched where lines are missing or new
MISSING = "(nothing)"

Pair = tuple["int | None", "int | None"]


def compare_output(expected: str, actual: str, tolerance: Tolerance, name: str = "output") -> Check:
    """Compares two texts; the tolerance grows from line to line."""
    check = Check(name, "line")
    compare_text(check, expected, actual, tolerance)
    return check


def compare_text(check: Check, expected: str, actual: str, tolerance: Tolerance, where: str = "") -> None:
    """Adds each line of two texts to a check.

    Args:
        check: takes the lines.
        expected, actual: of the original and of the rewritten script.
        tolerance: for the numbers in them.
        where: what the lines belong to, for the table.
    """
    left, right = lines_of(expected), lines_of(actual)
    noisy = rounded = 0
    for a, b in pairs([skeleton(line) for line in left], [skeleton(line) for line in right]):
        number = (a if a is not None else b) or 0
        what = f"{where}line {number + 1}"
        if a is None or b is None:
            here = [MISSING if index is None else lines[index] for index, lines in ((a, left), (b, right))]
            check.add(Row(what, here[0], here[1], index=number))
            continue
        row, kind = compare_line(what, left[a], right[b], tolerance, number)
        noisy += kind == "noise"
        rounded += kind == "rounded"
        check.add(row)
    if noisy:
        check.notes.append(f"{where}{differing(noisy)} in times, speeds, memory or addresses only")
    if rounded:
        check.notes.append(f"{where}{differing(rounded)} by one unit of the last printed digit only")


def compare_line(what: str, a: str, b: str, tolerance: Tolerance, index: int) -> tuple[Row, str]:
    """The row of one line, and why it is taken for equal although it is not: "noise", "rounded" or ""."""
    row, kind = by_numbers(what, a, b, tolerance, index)
    if row.equal:
        return row, kind
    bare = without_noise(a), without_noise(b)
    if bare == (a, b):
        return row, ""
    quiet, kind = by_numbers(what, *bare, tolerance, index)
    if quiet.equal:
        return quiet, kind or "noise"
    return (row if infinite(quiet) else quiet), ""


def by_numbers(what: str, a: str, b: str, tolerance: Tolerance, index: int) -> tuple[Row, str]:
    """Compares two lines by their text and by each of their numbers; the worst of them makes the row."""
    if folded(NUMBER.sub("#", a)) != folded(NUMBER.sub("#", b)):
        return Row(what, a, b, index=index), ""
    worst, kind = Row(what, a, b, 0.0, 0.0, index), ""
    tokens = list(zip(NUMBER.findall(a), NUMBER.findall(b)))
    for place, (x, y) in enumerate(tokens, 1):
        far = excess(float(x), float(y), tolerance.at(index), tolerance.absolute)
        if far > 1 and last_digit(x, y):
            far, kind = 1.0, "rounded"
        if far > worst.excess:
            name = what if len(tokens) == 1 else f"{what}, number {place}"
            worst = Row(name, shown_as(x), shown_as(y), difference(float(x), float(y)), far, index)
    return worst, kind if worst.equal else ""


def shown_as(token: str) -> str:
    """A printed number for the table: as printed, if it is short."""
    return token if len(token) <= 12 else shown(float(token))


def skeleton(line: str) -> str:
    """What identifies a line: its text without numbers and noise."""
    return folded(NUMBER.sub("#", without_noise(line)))


def pairs(left: Sequence[str], right: Sequence[str]) -> Iterator[Pair]:
    """Which lines belong together; `None` for a line that one side does not have."""
    start = 0
    while start < min(len(left), len(right)) and left[start] == right[start]:
        start += 1
    end = 0
    while end < min(len(left), len(right)) - start and left[-1 - end] == right[-1 - end]:
        end += 1
    yield from ((index, index) for index in range(start))
    middle = left[start : len(left) - end], right[start : len(right) - end]
    for a, b in matched(*middle):
        yield (None if a is None else a + start), (None if b is None else b + start)
    yield from ((len(left) - index, len(right) - index) for index in range(end, 0, -1))


def matched(left: Sequence[str], right: Sequence[str]) -> Iterator[Pair]:
    """Pairs of the lines in which two texts differ."""
    if len(left) * len(right) > MOST:
        whole = [("replace", 0, len(left), 0, len(right))]
    else:
        whole = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()  # type: ignore[assignment]
    for _, a, a_end, b, b_end in whole:
        for step in range(max(a_end - a, b_end - b)):
            yield (a + step if a + step < a_end else None), (b + step if b + step < b_end else None)


def differing(count: int) -> str:
    """`1 line differs`, `2 lines differ`."""
    return f"{plural(count, 'line')} {'differs' if count == 1 else 'differ'}"


def infinite(row: Row) -> bool:
    """Whether the row compares texts, or a value with none."""
    return math.isinf(row.difference)
