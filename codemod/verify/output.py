"""Compares texts, as standard output, number by number."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

from ..dataclass import replace
from ..phrases import plural
from .found import Check, Row, row_of
from .noise import TIMES, folded, lines_of, without_noise
from .numbers import NUMBER, Tolerance, beyond, last_digit, shown, unit, whole

MOST = 2_000_000  # pairs of lines that may be matched where lines are missing or new
NEAR = 50  # lines that are looked through, in each of both texts, where more would be
KEPT = 2000  # times that are kept, for what a second run says of them
MISSING = "(nothing)"

UNIT = re.compile(r"(?<=\d)(?=[A-Za-zµ])")

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
    noisy, rounded = 0, len(check.rounded)
    for a, b in pairs(left, right, skeleton):
        number = (a if a is not None else b) or 0
        if a is None or b is None:
            here = [MISSING if index is None else lines[index] for index, lines in ((a, left), (b, right))]
            check.add(Row(f"{where}line {number + 1}", here[0], here[1], index=number))
            continue
        row, quiet = compare_line(check, where, (left[a], right[b]), tolerance, number)
        noisy += quiet
        check.add(row)
    if noisy:
        check.notes.append(f"{where}{differing(noisy)} in times, speeds, memory or addresses only")
    if len(check.rounded) > rounded:
        count = len({row.index for row in check.rounded[rounded:]})
        check.notes.append(f"{where}{differing(count)} by one unit of the last printed digit only")
        count_digits(check, left, where)


def compare_line(
    check: Check, where: str, lines: tuple[str, str], tolerance: Tolerance, index: int
) -> tuple[Row, bool]:
    """The row of one line, and whether it differs in noise only; tells a check what was taken for equal and is not."""
    what = f"{where}line {index + 1}"
    if lines[0] == lines[1]:
        return Row(what, *lines, 0.0, 0.0, index, apart=0.0), False
    bare = without_noise(lines[0]), without_noise(lines[1])
    if bare[0] == bare[1]:
        if len(check.noise) < KEPT:
            check.noise += times_of(where, lines, index)
        return Row(what, *lines, 0.0, 0.0, index, apart=0.0), True
    whole_line = rows = by_numbers(where, lines, tolerance, index)
    if not all_equal(rows) and bare != lines:
        if len(check.noise) < KEPT:
            check.noise += times_of(where, lines, index)
        quiet = by_numbers(where, bare, tolerance, index)
        rows = rows if quiet is None else quiet
    if rows is None:
        return Row(what, *lines, index=index, like=where + skeleton(lines[0])), False
    if all_equal(rows):
        check.rounded += [row for row in rows if row.excess == 1.0 and row.flips]
    if not rows:
        return Row(what, *lines, 0.0, 0.0, index, apart=0.0), True
    worst = max(rows, key=lambda row: row.excess)
    rest = tuple(row for row in rows if row is not worst and not row.equal)
    return replace(worst, also=rest), worst.equal and rows is not whole_line


def by_numbers(where: str, lines: tuple[str, str], tolerance: Tolerance, index: int) -> list[Row] | None:
    """The rows of all numbers in two lines; `None` if their texts differ."""
    a, b = lines
    what, text = f"{where}line {index + 1}", folded(NUMBER.sub("\0", a))
    if text != folded(NUMBER.sub("\0", b)):
        return None
    tokens = list(zip(NUMBER.findall(a), NUMBER.findall(b)))
    rows = []
    for place, (x, y) in enumerate(tokens, 1):
        far = beyond(x, y, tolerance.at(index), tolerance.absolute)
        name = what if len(tokens) == 1 else f"{what}, number {place}"
        if far > 1 and last_digit(x, y):
            far = 1.0
        row = row_of(name, (float(x), float(y)), (shown_as(x), shown_as(y)), far, index, f"{where}{text} {place}")
        if far and not row.apart:  # 3 and 3.0
            row = replace(row, difference=math.inf, apart=math.inf)
        rows.append(replace(row, unit=1.0 if whole(x) and whole(y) else unit(x)))
    return rows


def all_equal(rows: Sequence[Row] | None) -> bool:
    """Whether texts are the same, and all numbers equal."""
    return rows is not None and all(row.equal for row in rows)


def times_of(where: str, lines: tuple[str, str], index: int) -> Iterator[Row]:
    """The rows of those numbers of two lines that are times or rates and differ; nothing if units differ."""
    apart = spaced(lines[0]), spaced(lines[1])
    spans = [found.span() for found in TIMES.finditer(apart[0])]
    starts = [found.start() for found in NUMBER.finditer(apart[0])]
    rows = by_numbers(where, apart, Tolerance(), index) or ()
    for row, start in zip(rows, starts):
        if row.original != row.rewritten and any(a <= start < b for a, b in spans):
            yield row


def spaced(line: str) -> str:
    """A line with a space before the unit of each time."""
    return TIMES.sub(lambda found: UNIT.sub(" ", found[0]), line)


def count_digits(check: Check, lines: Sequence[str], where: str) -> None:
    """Adds up how many units of their last digit those numbers are large that stand where one differs by one unit."""
    likes = {row.like for row in check.rounded}
    for line in map(without_noise, lines):
        text = folded(NUMBER.sub("\0", line))
        for place, token in enumerate(NUMBER.findall(line), 1):
            like = f"{where}{text} {place}"
            if like in likes and unit(token):
                check.digits[like] = check.digits.get(like, 0.0) + abs(float(token)) / unit(token)


def shown_as(token: str) -> str:
    """A printed number for the table: as printed, if it is short."""
    return token if len(token) <= 12 else shown(float(token))


def skeleton(line: str) -> str:
    """What identifies a line: its text without numbers and noise."""
    return folded(NUMBER.sub("\0", without_noise(line)))


def pairs(left: Sequence[str], right: Sequence[str], text: Callable[[str], str] = str) -> Iterator[Pair]:
    """Which lines belong together, by their text; `None` for a line that one side does not have."""

    def same(a: str, b: str) -> bool:
        return a == b or text(a) == text(b)

    start = 0
    while start < min(len(left), len(right)) and same(left[start], right[start]):
        start += 1
    end = 0
    while end < min(len(left), len(right)) - start and same(left[-1 - end], right[-1 - end]):
        end += 1
    yield from ((index, index) for index in range(start))
    middle = [[text(line) for line in lines[start : len(lines) - end]] for lines in (left, right)]
    for a, b in matched(*middle):
        yield (None if a is None else a + start), (None if b is None else b + start)
    yield from ((len(left) - index, len(right) - index) for index in range(end, 0, -1))


def matched(left: Sequence[str], right: Sequence[str]) -> Iterator[Pair]:
    """Pairs of the lines in which two texts differ."""
    if len(left) * len(right) > MOST:
        yield from resumed(left, right)
        return
    for _, a, a_end, b, b_end in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        yield from beside(a, a_end, b, b_end)


def resumed(left: Sequence[str], right: Sequence[str]) -> Iterator[Pair]:
    """Pairs of the lines of long texts: where two differ, both go on at the next that are the same."""
    a = b = 0
    while a < len(left) and b < len(right):
        if left[a] == right[b]:
            yield a, b
            a, b = a + 1, b + 1
            continue
        ahead, other = next_same(left, right, a, b)
        yield from beside(a, ahead, b, other)
        a, b = ahead, other
    yield from beside(a, len(left), b, len(right))


def next_same(left: Sequence[str], right: Sequence[str], a: int, b: int) -> tuple[int, int]:
    """The nearest lines from here on that are the same; the next ones, if there are none near."""
    for far in range(NEAR):
        for step in range(far + 1):
            x, y = a + step, b + far - step
            if x < len(left) and y < len(right) and left[x] == right[y]:
                return x, y
    return min(a + NEAR, len(left)), min(b + NEAR, len(right))


def beside(a: int, a_end: int, b: int, b_end: int) -> Iterator[Pair]:
    """Two stretches of lines, each line with one of the other as long as there are any."""
    for step in range(max(a_end - a, b_end - b)):
        yield (a + step if a + step < a_end else None), (b + step if b + step < b_end else None)


def differing(count: int) -> str:
    """`1 line differs`, `2 lines differ`."""
    return f"{plural(count, 'line')} {'differs' if count == 1 else 'differ'}"
