"""Where a new import goes: at the end of the imports that a reader would look at."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from .blocks import Comments, Piece
from .render import Line


def is_import(line: Line) -> bool:
    """Whether a line holds imports only."""
    return isinstance(line, cst.SimpleStatementLine) and all(
        isinstance(small, (cst.Import, cst.ImportFrom)) for small in line.body
    )


def is_docstring(line: Line) -> bool:
    """Whether a line is a string alone."""
    return (
        isinstance(line, cst.SimpleStatementLine)
        and isinstance(line.body[0], cst.Expr)
        and isinstance(line.body[0].value, cst.BaseString)
    )


def place(lines: Sequence[Line], first_use: int) -> int:
    """Index before which a new import goes.

    It goes after the last import above both the first definition and the first use, else after the last one above the
    first use, else to the top, below a docstring.

    Args:
        lines: the original top-level lines.
        first_use: index of the first one that an edit changes.
    """
    definitions = (at for at, line in enumerate(lines) if isinstance(line, (cst.FunctionDef, cst.ClassDef)))
    for limit in (min(first_use, next(definitions, len(lines))), first_use):
        for at in range(limit - 1, -1, -1):
            if is_import(lines[at]):
                return at + 1
    return 1 if lines and is_docstring(lines[0]) and first_use > 0 else 0


def set_apart(new: list[Line], above: Sequence[Piece], below: Sequence[Piece]) -> None:
    """Blank lines around imports that stand where no others are, in place."""
    blank = cst.EmptyLine(indent=False)
    if above:
        new[0] = new[0].with_changes(leading_lines=[blank, *new[0].leading_lines])
    first = below[0].nodes[0] if below else None
    if first is None or isinstance(first, Comments):
        return
    if not first.leading_lines or first.leading_lines[0].comment is not None:
        below[0].nodes[0] = first.with_changes(leading_lines=[blank, *first.leading_lines])
