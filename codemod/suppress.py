"""Comments `# distify: ignore[DST101, DST203]`, by line."""

from __future__ import annotations

import difflib
import io
import re
import tokenize
from collections.abc import Mapping, Sequence

from .codes import CODES
from .edits import Edit, Enclose, Span
from .findings import Finding, finding

COMMENT = re.compile(r"#\s*distify:\s*ignore\b(?:\s*\[([^\]]*)\])?")
NEWLINE = re.compile(r"\r\n?")

BLANK = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)

Ignored = Mapping[int, frozenset[str]]


def ignored(text: str) -> tuple[Ignored, list[Finding]]:
    """The codes that are ignored on each line, and findings about comments that name no code of the catalogue.

    A comment counts for its own line, and at the end of a statement for all lines of the statement.
    """
    if "distify:" not in text:
        return {}, []
    codes: dict[int, set[str]] = {}
    wrong: list[Finding] = []
    first = 0
    for token in tokenize.generate_tokens(io.StringIO(NEWLINE.sub("\n", text)).readline):
        row = token.start[0]
        if token.type == tokenize.COMMENT:
            match = COMMENT.search(token.string)
            if match is not None:
                names = {name.strip() for name in (match.group(1) or "").split(",") if name.strip()}
                column = len(token.line[: token.start[1] + match.start()].encode())
                codes.setdefault(row, set()).update(names)
                wrong += unknown(names, Span(row, column, row, column + 1))
        elif token.type == tokenize.NEWLINE:
            for above in range(first or row, row):
                codes.setdefault(above, set()).update(codes.get(row, ()))
            first = 0
        elif token.type not in BLANK:
            first = first or row
    return {row: frozenset(names) for row, names in codes.items() if names}, wrong


def unknown(names: set[str], place: Span) -> list[Finding]:
    """Findings about names that are no codes, or about a comment without any."""
    if not names:
        return [finding("DST900", place, "the comment names no code", "write # distify: ignore[DST101]", "warning")]
    found = []
    for name in sorted(names - set(CODES)):
        close = difflib.get_close_matches(name.upper().replace("O", "0").replace("I", "1"), CODES, 1)
        hint = f"did you mean '{close[0]}'?" if close else "codes are those of the report, such as DST101"
        found.append(finding("DST900", place, f"unknown code '{name}'", hint, "warning"))
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
