"""Comments that suppress nothing, for `distify check`."""

from __future__ import annotations

from collections.abc import Iterable

from .codes import CODES
from .edits import Edit
from .findings import Finding, finding
from .suppress import Comment, line_of

UNUSED = "DST900"


def unused(
    comments: Iterable[Comment], findings: Iterable[Finding], edits: Iterable[Edit], converted: bool
) -> list[Finding]:
    """Findings about comments whose codes are not found on their lines.

    Args:
        comments: of a file.
        findings, edits: all that there is in it, suppressed or not.
        converted: its notes on what a conversion would do are gone with the conversion, and comments on them may stay.
    """
    there = {(item.span.line, item.code) for item in findings} | {(line_of(edit), edit.code) for edit in edits}
    found = []
    for comment in comments:
        for code in sorted(comment.codes & CODES.keys()):
            gone = converted and CODES[code].level == "note"
            if not gone and not any((row, code) in there for row in comment.lines):
                message = f"The comment ignores {code}, and nothing here has that code."
                found.append(finding(UNUSED, comment.place, message))
    return found
