"""Helpers for tests of the codemod: find nodes by their text, and convert whole sources."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from typing import Any

from distify.codemod.edits import Span, fstring_spans
from distify.codemod.options import Options
from distify.codemod.rewrite import Result, rewrite_source


def convert(source: str, options: Options | None = None) -> Result:
    """Converts a source given as an indented string."""
    return rewrite_source(textwrap.dedent(source).lstrip("\n").encode(), "train.py", options or Options())


def codes(result: Result) -> list[str]:
    """The codes of all findings, by place."""
    return [item.code for item in result.findings]


def check_noop(source: str, options: Options | None = None, findings: Sequence[str] | None = ()) -> Result:
    """Asserts that a source is left alone, with exactly these finding codes (`None`: any)."""
    result = convert(source, options)
    assert result.data == result.before, result.data.decode()
    assert findings is None or codes(result) == list(findings)
    return result


def check_rewritten(
    before: str, after: str, options: Options | None = None, findings: Sequence[str] | None = ()
) -> Result:
    """Asserts that a source becomes another one, which parses and is left alone by a second conversion.

    Args:
        before, after: indented strings.
        options: of the conversion.
        findings: exactly these codes, by place (`None`: any).
    """
    result = convert(before, options)
    expected = textwrap.dedent(after).lstrip("\n")
    assert result.data.decode() == expected, explain(result)
    ast.parse(expected)
    again = convert(expected, options)
    assert again.data.decode() == expected, "a second conversion changes:\n" + again.data.decode()
    assert findings is None or codes(result) == list(findings), explain(result)
    return result


def explain(result: Result) -> str:
    """What came out, for the message of a failed assertion."""
    notes = "\n".join(f"{item.span.line}: {item.code} {item.level}: {item.message}" for item in result.findings)
    return f"{notes}\n{result.data.decode()}"


class Script:
    """A source whose nodes are found by their text."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = ast.parse(source)
        fstring_spans(source, self.tree)

    def find(self, text: str, kind: type[ast.AST], nth: int) -> Any:
        nodes = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, kind) and "".join((ast.get_source_segment(self.source, node) or "").split("\r")) == text
        ]
        nodes.sort(key=lambda node: Span.of(node))
        assert len(nodes) > nth, f"{text!r} not found"
        return nodes[nth]

    def expr(self, text: str, nth: int = 0) -> Span:
        """Span of the nth expression with this text."""
        return Span.of(self.find(text, ast.expr, nth))

    def stmt(self, start: str, nth: int = 0) -> Span:
        """Span of the nth statement whose text starts so."""
        nodes = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.stmt) and (ast.get_source_segment(self.source, node) or "").startswith(start)
        ]
        spans = sorted(Span.of(node) for node in nodes)
        assert len(spans) > nth, f"{start!r} not found"
        return spans[nth]
