"""Positions of expressions inside f-strings, which `ast` gets wrong before Python 3.12.

`fstring_spans` finds each replacement field in the source, parses its expression alone, and copies the positions into
the tree.
"""

from __future__ import annotations

import ast
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator

from .dataclass import dataclass, field
from .trees import children

NEWLINE = re.compile(r"\r\n?|\n")
BETWEEN = re.compile(r"(?:[\s()]|\\\r?\n|#[^\r\n]*)*")
OPENING = re.compile(r"([A-Za-z]*)('''|\"\"\"|'|\")")


@dataclass
class Field:
    """A replacement field: offsets of its braces, of its expression, and the fields in its format specification."""

    start: int
    end: int
    first: int
    last: int
    inner: list[Field] = field(default_factory=list)


class Text:
    """A source text with conversions between offsets and `ast` positions."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.starts = [0, *(match.end() for match in NEWLINE.finditer(source))]

    def offset(self, line: int, column: int) -> int:
        """Offset of a line from 1 and a column in UTF-8 bytes."""
        start = self.starts[line - 1]
        end = self.starts[line] if line < len(self.starts) else len(self.source)
        return start + len(self.source[start:end].encode("utf-8")[:column].decode("utf-8", "replace"))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and byte column of an offset."""
        line = bisect_right(self.starts, offset)
        return line, len(self.source[self.starts[line - 1] : offset].encode("utf-8"))


def fstring_spans(source: str, tree: ast.AST) -> None:
    """Corrects, in place, the positions of nodes inside f-strings; does nothing from Python 3.12 on.

    Args:
        source: the text that `tree` was parsed from.
        tree: its `ast`. An f-string whose fields can't be told apart keeps the positions it has.
    """
    if sys.version_info >= (3, 12):
        return
    text: Text | None = None
    for node in outermost(tree):
        text = text or Text(source)
        repair(text, node)


def outermost(tree: ast.AST) -> Iterator[ast.JoinedStr]:
    """The f-strings of a tree that are in no other."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.JoinedStr):
            yield node
        else:
            stack.extend(children(node))


def repair(text: Text, node: ast.JoinedStr) -> None:
    """Corrects the fields of one f-string whose own position is right."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = text.offset(node.lineno, node.col_offset)
    end = text.offset(node.end_lineno, node.end_col_offset)
    try:
        assign(text, node, fields(text.source, start, end))
    except (IndexError, SyntaxError):
        return


def assign(text: Text, node: ast.JoinedStr, found: list[Field]) -> None:
    """Gives the values of an f-string the positions of the fields found in the source."""
    values = [value for value in node.values if isinstance(value, ast.FormattedValue)]
    if len(values) != len(found):
        return
    for value, place in zip(values, found):
        value.lineno, value.col_offset = text.position(place.start)
        value.end_lineno, value.end_col_offset = text.position(place.end)
        line, column = text.position(place.first)
        parsed = ast.parse(f"({text.source[place.first : place.last]})", mode="eval").body
        for old, new in zip(ast.walk(value.value), ast.walk(parsed)):
            if isinstance(old, (ast.expr, ast.keyword, ast.arg)) and isinstance(new, type(old)):
                old.lineno, old.col_offset = shifted(new.lineno, new.col_offset, line, column)
                old.end_lineno, old.end_col_offset = shifted(new.end_lineno or 1, new.end_col_offset or 0, line, column)
        for inner in outermost(value.value):
            repair(text, inner)
        if isinstance(value.format_spec, ast.JoinedStr):
            assign(text, value.format_spec, place.inner)


def shifted(line: int, column: int, base: int, offset: int) -> tuple[int, int]:
    """A position in `(expression)` as one in the file, where the expression starts at line `base`, column `offset`."""
    return base + line - 1, column - 1 + offset if line == 1 else column


def fields(source: str, start: int, end: int) -> list[Field]:
    """The replacement fields of a string, or of several strings next to each other, in order."""
    found: list[Field] = []
    at = start
    while at < end:
        at = BETWEEN.match(source, at).end()  # type: ignore[union-attr]
        opening = OPENING.match(source, at)
        if opening is None or at >= end:
            break
        prefix, quote = opening.groups()
        body = at = opening.end()
        while not source.startswith(quote, at):
            at += 2 if source[at] == "\\" else 1
        if "f" in prefix.lower():
            scan(source, body, at, "r" in prefix.lower(), found)
        at += len(quote)
    return found


def scan(source: str, at: int, end: int, raw: bool, found: list[Field], spec: bool = False) -> int:
    """Collects fields up to an offset, or to the brace that closes a format specification; returns where it ended."""
    while at < end:
        if not raw and source.startswith("\\N{", at):
            at = source.index("}", at) + 1
        elif source[at] == "\\":
            at += 1 if raw else 2
        elif source[at] == "}" and spec:
            return at
        elif source[at : at + 2] in ("{{", "}}") and not spec:
            at += 2
        elif source[at] == "{":
            place = one_field(source, at, end, raw)
            found.append(place)
            at = place.end
        else:
            at += 1
    return at


def one_field(source: str, start: int, end: int, raw: bool) -> Field:
    """The replacement field whose opening brace is at `start`."""
    last = expression_end(source, start + 1, end)
    place = Field(start, start, start + 1, last)
    at = last
    if source[at] == "=":  # f"{x=}"
        at += 1
        while source[at].isspace():
            at += 1
    if source[at] == "!":
        at += 2
        while source[at].isspace():
            at += 1
    if source[at] == ":":
        at = scan(source, at + 1, end, raw, place.inner, spec=True)
    if source[at] != "}":
        raise SyntaxError("replacement field without end")
    place.end = at + 1
    return place


def expression_end(source: str, at: int, end: int) -> int:
    """Offset of the `=`, `!`, `:` or `}` that ends the expression of a field."""
    depth = 0
    while at < end:
        char = source[at]
        opening = OPENING.match(source, at) if char in "'\"" else None
        if opening is not None:
            quote = opening.group(2)
            at = source.index(quote, opening.end()) + len(quote)
            continue
        if char in "([{":
            depth += 1
        elif depth and char in ")]}":
            depth -= 1
        elif depth == 0 and char in "=!<>" and source[at + 1] == "=":
            at += 2
            continue
        elif depth == 0 and char in "}:=!":
            return at
        at += 1
    raise SyntaxError("replacement field without end")
