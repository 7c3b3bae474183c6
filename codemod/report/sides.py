"""Two texts side by side: which line stands beside which, and which words of two such lines differ."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from ..dataclass import dataclass
from .blocks import Block, Line

WORD = re.compile(r"\w+|.", re.DOTALL)
ALIKE = 0.4  # of two lines that stand side by side
MANY = 60  # lines of a hunk that are compared with each other
LONG = 400  # characters of a line that are compared


@dataclass(frozen=True)
class Part:
    """Part of a line; `new` where the other line has something else."""

    text: str
    new: bool


@dataclass(frozen=True)
class Side:
    """A line as it is shown on one side."""

    number: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Row:
    """Two lines side by side; one of them is missing where the other is gone or new."""

    old: Side | None
    new: Side | None
    same: bool


def rows(block: Block) -> list[Row]:
    """The rows of a block."""
    found: list[Row] = []
    gone: list[Line] = []
    come: list[Line] = []
    for line in (*block.lines, None):
        if line is not None and line.sign == "-" and not come:
            gone.append(line)
        elif line is not None and line.sign == "+":
            come.append(line)
        else:
            found += beside(gone, come)
            gone, come = ([line], []) if line is not None and line.sign == "-" else ([], [])
            if line is not None and line.sign == " ":
                whole = (Part(line.text, False),)
                found.append(Row(Side(line.old or 0, whole), Side(line.new or 0, whole), True))
    return found


def beside(gone: Sequence[Line], come: Sequence[Line]) -> list[Row]:
    """The lines of a hunk, those that are most alike side by side, in the order of both texts."""
    found: list[Row] = []
    at = 0
    for old, new in [*pairs([line.text for line in gone], [line.text for line in come]), (len(gone), len(come))]:
        before = [one_sided(line) for line in gone[at:old]]
        start = sum(row.new is not None for row in found)
        found += [*before, *(one_sided(line) for line in come[start:new])]
        if old < len(gone):
            found.append(both(gone[old], come[new]))
        at = old + 1
    return found


def pairs(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of lines that are alike, none crossing another, with the greatest likeness in all."""
    if not old or not new or max(len(old), len(new)) > MANY:
        return []
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    like = [[likeness(one, other) for other in new] for one in old]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            paired = best[i + 1][j + 1] + like[i][j] if like[i][j] >= ALIKE else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    found, i, j = [], 0, 0
    while i < len(old) and j < len(new):
        if like[i][j] >= ALIKE and best[i][j] == best[i + 1][j + 1] + like[i][j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return found


def likeness(one: str, other: str) -> float:
    """How much of two lines is the same, from 0 to 1; indentation doesn't count."""
    matcher = difflib.SequenceMatcher(None, words(one.strip()), words(other.strip()), autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= ALIKE else 0.0


def words(line: str) -> list[str]:
    """A line in words and signs."""
    return [word for word in WORD.findall(line[:LONG]) if not word.isspace()]


def one_sided(line: Line) -> Row:
    """A line that is gone or new."""
    parts = (Part(line.text, True),)
    if line.old is not None:
        return Row(Side(line.old, parts), None, False)
    return Row(None, Side(line.new or 0, parts), False)


def both(old: Line, new: Line) -> Row:
    """Two lines side by side, with the words that differ."""
    if max(len(old.text), len(new.text)) > LONG:
        whole = Part(old.text, True), Part(new.text, True)
        return Row(Side(old.old or 0, whole[:1]), Side(new.new or 0, whole[1:]), False)
    one, other = WORD.findall(old.text), WORD.findall(new.text)
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    left: list[Part] = []
    right: list[Part] = []
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        left += [Part("".join(one[i:i_end]), tag != "equal")] if i < i_end else []
        right += [Part("".join(other[j:j_end]), tag != "equal")] if j < j_end else []
    return Row(Side(old.old or 0, tuple(left)), Side(new.new or 0, tuple(right)), False)
