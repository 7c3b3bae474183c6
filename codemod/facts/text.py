"""Source text of nodes, fast: `ast.get_source_segment` splits the whole file at each call."""

from __future__ import annotations

import ast
import re

_LINES = re.compile(r".*?(?:\r\n|\n|\r|$)", re.DOTALL)


class SourceText:
    """Text of one file, addressed by nodes.

    Args:
        source: the decoded text that was parsed.
    """

    def __init__(self, source: str) -> None:
        self._lines = [line.encode() for line in _LINES.findall(source)]

    def of(self, node: ast.AST) -> str:
        """Source text of a node; unparsed where it has no place of its own."""
        first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if first is None or last is None:
            return ast.unparse(node)
        start, end = int(getattr(node, "col_offset", 0)), int(getattr(node, "end_col_offset", 0))
        if first == last:
            text = self._lines[first - 1][start:end]
        else:
            text = b"".join(
                [self._lines[first - 1][start:], *self._lines[first : last - 1], self._lines[last - 1][:end]]
            )
        return str(text, "utf-8")
