"""Findings: what the user is told about a place in the source, with a stable code from the catalogue."""

from __future__ import annotations

import ast

from .codes import CODES, Code, Level
from .dataclass import dataclass
from .edits import Span

__all__ = ["CODES", "Code", "Finding", "Level", "finding"]

NOWHERE = Span(1, 0, 1, 0)


@dataclass(frozen=True)
class Finding:
    """One message about one place.

    Attributes:
        code: `DSTnnn`, a key of `CODES`.
        level: "error" (the construct is refused), "warning" or "note".
        span: where, as `ast` counts.
        message: what was found here and why it matters, one sentence.
        hint: what to type instead.
    """

    code: str
    level: Level
    span: Span
    message: str
    hint: str = ""


def finding(
    code: str,
    where: ast.AST | Span | None = None,
    message: str = "",
    hint: str = "",
    level: Level | None = None,
) -> Finding:
    """A finding of the catalogue; text and level not given come from its entry.

    Args:
        code: a key of `CODES`, else `KeyError`.
        where: an `ast` node or a span; `None` is the start of the file.
        message, hint, level: replace those of the catalogue.
    """
    entry = CODES[code]
    span = where if isinstance(where, Span) else NOWHERE if where is None else Span.of(where)
    return Finding(code, level or entry.level, span, message or f"{entry.title}: {entry.why}", hint or entry.remedy)
