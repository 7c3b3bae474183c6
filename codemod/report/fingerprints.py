"""What tells a finding from others when lines above it come and go: its code, its statement, and which of equal ones.

The statement counts without comments and whitespace, and of a compound statement only the header, so that neither a
reformatted file nor a longer body gives an old finding a new fingerprint.
"""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from ..edits import Span
from ..findings import NOWHERE

SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)

Position = tuple[int, int]


class Statements:
    """The statements of a text, by place."""

    def __init__(self, text: str) -> None:
        self.text = "\n".join(text.replace("\r\n", "\n").split("\r"))

    @cached_property
    def _ranges(self) -> list[tuple[Position, Position]]:
        """Where statements, or their headers, begin and end; those inside come after those around them."""
        try:
            tree = ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []
        nodes = sorted(
            (node for node in ast.walk(tree) if isinstance(node, ast.stmt)),
            key=lambda node: (node.lineno, node.col_offset),
        )
        return [((node.lineno, node.col_offset), header_end(node)) for node in nodes]

    @cached_property
    def _tokens(self) -> list[tuple[Position, str]]:
        """Where tokens begin, in bytes as `ast` counts, and what they are."""
        found = []
        try:
            for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
                if token.type not in SILENT:
                    row, column = token.start
                    found.append(((row, len(token.line[:column].encode("utf-8", "replace"))), token.string))
        except (tokenize.TokenError, SyntaxError):
            pass
        return found

    def at(self, span: Span) -> str:
        """The innermost statement at a place, without comments and whitespace; the line where there is none."""
        if span == NOWHERE:
            return ""
        place = (span.line, span.column)
        inner = [(start, end) for start, end in self._ranges if start <= place < end]
        if not inner:
            lines = self.text.split("\n")
            return "".join(lines[span.line - 1].split()) if span.line <= len(lines) else ""
        start, end = inner[-1]
        low, high = (bisect_left(self._tokens, edge, key=lambda item: item[0]) for edge in (start, end))
        return "".join(string for _, string in self._tokens[low:high])


def header_end(node: ast.stmt) -> Position:
    """Where a statement ends; a compound one where its body begins."""
    inside = [child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.stmt, ast.match_case))]
    if not inside:
        return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset + 1
    first = inside[0].pattern if isinstance(inside[0], ast.match_case) else inside[0]
    decorators = getattr(first, "decorator_list", [])
    return min((item.lineno, item.col_offset) for item in [first, *decorators])


def fingerprints(text: str, places: Sequence[tuple[str, Span]]) -> list[str]:
    """A fingerprint for each code and place of a text, in the order in which they stand there."""
    statements = Statements(text)
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for code, span in places:
        key = (code, statements.at(span))
        digest = hashlib.sha256("\0".join(key).encode("utf-8", "replace")).hexdigest()[:32]
        seen[key] += 1
        found.append(f"{digest}:{seen[key]}")
    return found
