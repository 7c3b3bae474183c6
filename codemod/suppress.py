"""Comments `# distify: ignore[DST101, DST203]`, by line."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Mapping, Sequence

from .codes import CODES, similar
from .dataclass import dataclass, replace
from .edits import Edit, Enclose, Span
from .findings import Finding, finding

COMMENT = re.compile(r"#\s*distify:\s*ignore\b(?:\s*\[([^\]]*)\])?")
NEWLINE = re.compile(r"\r\n?")

BLANK = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)

Ignored = Mapping[int, frozenset[str]]


@dataclass(frozen=True)
class Comment:
    """A comment `# distify: ignore[…]`.

    Attributes:
        place: where it begins.
        codes: the names in it.
        lines: those that it counts for: its own, and at the end of a statement all of the statement.
    """

    place: Span
    codes: frozenset[str]
    lines: range


def ignored(text: str) -> tuple[Ignored, list[Finding]]:
    """The codes that are ignored on each line, and findings about comments that name no code of the catalogue."""
    codes: dict[int, set[str]] = {}
    wrong: list[Finding] = []
    for comment in comments(text):
        wrong += unknown(set(comment.codes), comment.place)
        for row in comment.lines:
            codes.setdefault(row, set()).update(comment.codes)
    return {row: frozenset(names) for row, names in codes.items() if names}, wrong


def comments(text: str) -> list[Comment]:
    """All comments of a text that ignore something, with the lines that they count for."""
    if "distify:" not in text:
        return []
    found: list[Comment] = []
    first = 0
    for token in tokenize.generate_tokens(io.StringIO(NEWLINE.sub("\n", text)).readline):
        row = token.start[0]
        if token.type == tokenize.COMMENT:
            match = COMMENT.search(token.string)
            if match is not None:
                names = frozenset(name.strip() for name in (match.group(1) or "").split(",") if name.strip())
                column = len(token.line[: token.start[1] + match.start()].encode())
                found.append(Comment(Span(row, column, row, column + 1), names, range(row, row + 1)))
        elif token.type == tokenize.NEWLINE:
            if found and found[-1].place.line == row:
                found[-1] = replace(found[-1], lines=range(first or row, row + 1))
            first = 0
        elif token.type not in BLANK:
            first = first or row
    return found


def unknown(names: set[str], place: Span) -> list[Finding]:
    """Findings about names that are no codes, or about a comment without any."""
    if not names:
        return [finding("DST900", place, "the comment names no code", "write # distify: ignore[DST101]", "warning")]
    found = []
    for name in sorted(names - set(CODES)):
        found.append(finding("DST900", place, f"unknown code '{name}'", similar(name), "warning"))
    return found


def filtered(edits: Sequence[Edit], findings: Sequence[Finding], codes: Ignored) -> tuple[list[Edit], list[Finding]]:
    """What is left of edits and findings: a suppressed note or warning is not shown; under a suppressed error the
    place is also left unconverted."""
    kept = [item for item in findings if item.code not in codes.get(item.span.line, ())]
    left = [edit for edit in edits if not (is_error(edit.code) and edit.code in codes.get(line_of(edit), ()))]
    return left, kept


def is_error(code: str) -> bool:
    """Whether a code stands for a refusal."""
    return code in CODES and CODES[code].level == "error"


def line_of(edit: Edit) -> int:
    """The line an edit starts on, 0 for an import."""
    place = edit.first if isinstance(edit, Enclose) else getattr(edit, "span", None)
    return place.line if isinstance(place, Span) else 0
