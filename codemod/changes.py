"""What an edit changed in a file: which lines were there, which are there now, who changed them and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from .dataclass import dataclass
from .edits import AddImport, Edit, Enclose, Span
from .reasons import IMPORTED, reason

NEWLINE = re.compile(r"\r\n?|\n")

Range = tuple[int, int]
"""First and last line, from 1, both included."""


@dataclass(frozen=True)
class Change:
    """One edit as it was made.

    Attributes:
        before: its place in the text before; an import's is the empty span where it was put.
        after: the lines of the new text that it made or moved, in order; none where it only took away.
        rule: the name of the rule that asked for it.
        kind: what the report counts it as.
        code: the code whose page tells about this kind of place, "" for none.
        reason: why, as a phrase in one line.
    """

    before: Span
    after: tuple[Range, ...]
    rule: str
    kind: str
    code: str
    reason: str

    @property
    def lines(self) -> list[int]:
        """The lines of `after`."""
        return [line for first, last in self.after for line in range(first, last + 1)]


@dataclass(frozen=True)
class Hunk:
    """Lines that differ: `[old, old_end)` of the text before became `[new, new_end)`, counted from 0."""

    old: int
    old_end: int
    new: int
    new_end: int


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends, as Python counts them: a form feed ends none."""
    ends = [0, *(match.end() for match in NEWLINE.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(ends) if end > start]


def hunks(before: Sequence[str], after: Sequence[str]) -> list[Hunk]:
    """The places where two sequences of lines differ."""
    import difflib

    matcher = difflib.SequenceMatcher(None, before, after)
    return [Hunk(*places) for tag, *places in matcher.get_opcodes() if tag != "equal"]


def changes(before: str, after: str, edits: Sequence[Edit], made: Sequence[frozenset[int]]) -> tuple[Change, ...]:
    """What edits changed, by place.

    Args:
        before, after: the text of a file, and what it became.
        edits: all that were made.
        made: for each edit, lines of `after` on which something that it made begins or ends.
    """
    found = hunks(lines_of(before), lines_of(after))
    if not found:
        return ()
    told = [change(edit, lines, found) for edit, lines in zip(edits, made)]
    return tuple(sorted(dict.fromkeys(told), key=lambda item: (item.before, item.after)))


def change(edit: Edit, made: frozenset[int], found: Sequence[Hunk]) -> Change:
    """What one edit changed: of the lines that it made those that differ, else those that came in its place."""
    place = span_of(edit)
    new = {line for hunk in found for line in made if hunk.new < line <= hunk.new_end}
    if made and not new:  # lines like those around them: the difference is seen next to them
        hunk = min(found, key=lambda item: distance(item.new, item.new_end, min(made)))
        new = set(range(hunk.new + 1, hunk.new_end + 1))
    elif not made and place is not None:
        hunk = min(found, key=lambda item: distance(item.old, item.old_end, place.line))
        new = set(range(hunk.new + 1, hunk.new_end + 1))
    why = IMPORTED if isinstance(edit, AddImport) else reason(edit.rule, edit.kind)
    return Change(place or inserted(new, found), ranges(new), edit.rule, edit.kind, edit.code, why)


def span_of(edit: Edit) -> Span | None:
    """Where an edit is in the text before; an import is nowhere."""
    if isinstance(edit, AddImport):
        return None
    if isinstance(edit, Enclose):
        return Span(edit.first.line, edit.first.column, edit.last.end_line, edit.last.end_column)
    return edit.span  # type: ignore[attr-defined,no-any-return]  # all others have one


def inserted(new: set[int], found: Sequence[Hunk]) -> Span:
    """The empty span of the text before where new lines were put."""
    first = min(new, default=1)
    hunk = min(found, key=lambda item: distance(item.new, item.new_end, first))
    return Span(hunk.old + 1, 0, hunk.old + 1, 0)


def distance(start: int, end: int, line: int) -> int:
    """How far a line, from 1, is from the lines `[start, end)`, from 0."""
    return max(start + 1 - line, line - max(end, start + 1), 0)


def ranges(lines: set[int]) -> tuple[Range, ...]:
    """Lines as ranges."""
    found: list[Range] = []
    for line in sorted(lines):
        if found and found[-1][1] == line - 1:
            found[-1] = (found[-1][0], line)
        else:
            found.append((line, line))
    return tuple(found)


def belongs(change: Change, hunk: Hunk) -> bool:
    """Whether a change is one of those that make up a hunk."""
    if change.after:
        return any(first <= hunk.new_end and last > hunk.new for first, last in change.after)
    return change.before.line <= max(hunk.old_end, hunk.old + 1) and change.before.end_line > hunk.old
