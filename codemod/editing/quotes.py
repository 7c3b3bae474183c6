"""Keeps strings that an edit puts into an f-string readable for Python 3.10 and 3.11, which can't reuse its quotes."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from .errors import EditError


class _Strings(cst.CSTTransformer):
    """Gives new string literals the other quotes."""

    def __init__(self, known: str, taken: set[str]) -> None:
        super().__init__()
        self.known = known
        self.taken = taken

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.SimpleString:
        value = updated_node.value
        quote = updated_node.quote
        if value in self.known or quote not in self.taken:
            return updated_node
        other = "'" if quote == '"' else '"'
        if other in self.taken or other in value or "\\" in value:
            raise EditError(f"no quotes left for {value} inside an f-string")
        return cst.SimpleString(f"{updated_node.prefix}{other}{updated_node.raw_value}{other}")


def swap_quotes(
    module: cst.Module,
    original: cst.FormattedStringExpression,
    updated: cst.FormattedStringExpression,
    parents: Sequence[cst.CSTNode],
) -> cst.FormattedStringExpression:
    """The replacement field of an f-string, with new string literals in quotes that the f-string doesn't use."""
    before = module.code_for_node(original)
    after = module.code_for_node(updated)
    if before == after:
        return updated
    taken = {node.end[0] for node in parents if isinstance(node, cst.FormattedString)}
    result = updated.visit(_Strings(before, taken))
    assert isinstance(result, cst.FormattedStringExpression)
    return result
