"""What all formats show of a result: its state, places in columns that people count, and hunks with their reasons."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property

from ..changes import Change, Hunk, belongs, hunks, lines_of
from ..codes import CODES, LEVELS
from ..dataclass import dataclass
from ..edits import Span
from ..findings import Finding
from ..fstrings import Text
from ..phrases import plural
from ..rewrite import Result
from ..source import SourceError, decode

STATES = ("changed", "refused", "unchanged", "skipped")
STDIN = "<stdin>"


@dataclass(frozen=True)
class Place:
    """Lines and columns from 1; the end column is that of the first character behind."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Shown:
    """A hunk and why it is there."""

    hunk: Hunk
    changes: tuple[Change, ...]


class View:
    """A result as a format shows it.

    Args:
        result: of one file.
        written: whether the file holds what it became by now, so that places are to be told in that.
    """

    def __init__(self, result: Result, written: bool = False) -> None:
        self.result = result
        self.written = written
        self.path = printable(result.path)

    @cached_property
    def text(self) -> Text:
        """The text that was read."""
        return Text(self.result.text or readable(self.result.before, self.result.path))

    @cached_property
    def old(self) -> list[str]:
        """Its lines."""
        return lines_of(self.text.source)

    @cached_property
    def new(self) -> list[str]:
        """The lines that it became."""
        return lines_of(readable(self.result.data, self.result.path)) if self.result.changed else self.old

    @cached_property
    def hunks(self) -> list[Shown]:
        """The places where it differs, with the changes that are the reason."""
        found = hunks(self.old, self.new) if self.result.changed else []
        return [Shown(hunk, tuple(item for item in self.result.changes if belongs(item, hunk))) for hunk in found]

    @property
    def state(self) -> str:
        """One of `STATES`; a file that trains nothing is skipped."""
        if self.result.refused and not self.result.changed:
            return "refused"
        if self.result.changed:
            return "changed"
        return "unchanged" if self.result.training else "skipped"

    def place(self, span: Span, utf16: bool = False) -> Place:
        """A place in columns of characters, or of UTF-16 code units."""
        column = self._column(span.line, span.column, utf16)
        end_line, end = span.end_line, self._column(span.end_line, span.end_column, utf16)
        return Place(span.line, column, end_line, max(end, column) if end_line == span.line else end)

    def placed(self, span: Span, utf16: bool = False) -> Place:
        """A place in the file as it is now; of lines that were rewritten, the whole ones."""
        place = self.place(span, utf16)
        if not self.written:
            return place
        (line, same), (end_line, same_end) = self._now(place.line), self._now(place.end_line)
        if same and same_end and end_line - line == place.end_line - place.line:
            return Place(line, place.column, end_line, place.end_column)
        return Place(line, 1, max(line, end_line), 1)

    def _now(self, line: int) -> tuple[int, bool]:
        """Where a line is now, and whether it is as it was."""
        shift = 0
        for hunk in (shown.hunk for shown in self.hunks):
            if line <= hunk.old:
                break
            if line <= hunk.old_end:
                return min(hunk.new + line - hunk.old, max(hunk.new_end, 1)), False
            shift = hunk.new_end - hunk.old_end
        return line + shift, True

    def _column(self, line: int, column: int, utf16: bool) -> int:
        if line > len(self.text.starts):
            return 1
        start = self.text.starts[line - 1]
        above = self.text.source[start : self.text.offset(line, column)]
        return (units(above) if utf16 else len(above)) + 1


def readable(data: bytes, path: str) -> str:
    """The text of a file's bytes, as well as it can be had."""
    try:
        return decode(data, path).text
    except SourceError:
        return data.decode("utf-8", "replace")


def printable(path: str) -> str:
    """A path with forward slashes, of characters that UTF-8 can hold."""
    return path.replace(os.sep, "/").encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def units(text: str) -> int:
    """The length of a text in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def states(views: Sequence[View]) -> dict[str, int]:
    """How many files there are in each state."""
    return {state: sum(view.state == state for view in views) for state in STATES}


def levels(results: Iterable[Result]) -> dict[str, int]:
    """How many findings there are of each level."""
    found = [item.level for result in results for item in result.findings]
    return {level: found.count(level) for level in LEVELS}


def edits(results: Iterable[Result]) -> int:
    """How many changes there are."""
    return sum(len(result.changes) for result in results)


def amount(result: Result) -> list[str]:
    """What there is to be read of one file: `3 changes`, `1 error`."""
    counts = [plural(edits([result]), "change")] if result.changes else []
    return counts + [plural(count, level) for level, count in levels([result]).items() if count]


def entry(item: Finding) -> dict[str, str]:
    """A finding in words, for JSON and for templates."""
    return {
        "code": item.code,
        "level": item.level,
        "title": CODES[item.code].title,
        "message": item.message,
        "hint": item.hint,
    }
