"""Parses a text with libcst and finds its nodes by `ast` positions.

`ast` counts columns in UTF-8 bytes and includes the parentheses of tuples and generators; libcst counts characters and
leaves all parentheses out. Both are turned into character offsets here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Union, cast

import libcst as cst
from libcst.metadata import CodeRange, PositionProvider
from libcst.metadata.position_provider import PositionProvidingCodegenState

from ..edits import Span
from .errors import EditError, UnsafeSource
from .header import with_own_header

NEWLINE = re.compile(r"\r\n?|\n")
FORM_FEED = re.compile(r"(?:(?<=\n)|(?<=\r)|\A)[ \t\f]*\f(?=[ \t]*[^\s#])")
MARK = "#distify form feed {}\n"
MARKED = re.compile(MARK.format("([0-9a-f]+)"))

Statement = Union[cst.BaseStatement, cst.BaseSmallStatement]


def line_starts(text: str) -> list[int]:
    """Offsets at which the lines of a text begin, with the three kinds of line ends that Python knows."""
    return [0, *(match.end() for match in NEWLINE.finditer(text))]


class Guard:
    """Keeps what libcst loses: form feeds before the code of a line, and a lone carriage return at the end.

    Form feeds become comment lines while the text is edited. `text` is what libcst reads.
    """

    def __init__(self, text: str) -> None:
        self.tail = "\r" if text.endswith("\r") else ""
        self.ends: list[int] = []
        self.shifts = [0]

        def mark(match: re.Match[str]) -> str:
            comment = MARK.format(match.group().encode().hex())
            self.ends.append(match.end())
            self.shifts.append(self.shifts[-1] + len(comment) - len(match.group()))
            return comment

        self.text = FORM_FEED.sub(mark, text[: len(text) - len(self.tail)])

    def moved(self, offset: int) -> int:
        """The offset in `text` of an offset in the original."""
        return offset + self.shifts[bisect_right(self.ends, offset)]

    def restore(self, text: str) -> str:
        """The edited text with what had been taken out."""
        return MARKED.sub(lambda match: bytes.fromhex(match.group(1)).decode(), text) + self.tail


class Writing(PositionProvidingCodegenState):
    """Writes a tree once, for its text, the places of its nodes and the node around each.

    What libcst offers for that writes and walks the tree again for each of them.
    """

    def __init__(self, module: cst.Module) -> None:
        self.positions = PositionProvider()
        super().__init__(module.default_indent, module.default_newline, self.positions)
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.above: list[cst.CSTNode] = []
        module._codegen(self)

    @property
    def code(self) -> str:
        """The text."""
        return "".join(self.tokens)

    @property
    def places(self) -> dict[cst.CSTNode, CodeRange]:
        """Where the nodes stand in it."""
        return cast("dict[cst.CSTNode, CodeRange]", self.positions._computed)

    def before_codegen(self, node: cst.CSTNode) -> None:
        super().before_codegen(node)
        if self.above:
            self.parents[node] = self.above[-1]
        self.above.append(node)

    def after_codegen(self, node: cst.CSTNode) -> None:
        super().after_codegen(node)
        self.above.pop()


@dataclass
class Located:
    """A parsed text and its nodes by character offsets of the text that libcst read.

    Attributes:
        expressions: (start, end) -> expression, as `ast` delimits it.
        statements: start -> statement; statements of one file never share their start.
        bounds: expression (with its parentheses) or statement -> (start, end).
        parents: node -> the node around it.
    """

    text: str
    guard: Guard
    module: cst.Module
    expressions: dict[tuple[int, int], cst.BaseExpression]
    statements: dict[int, Statement]
    bounds: dict[cst.CSTNode, tuple[int, int]]
    parents: dict[cst.CSTNode, cst.CSTNode]

    def __post_init__(self) -> None:
        self.starts = line_starts(self.text)

    def offset(self, line: int, column: int) -> int:
        """Offset in the text that libcst read of a line from 1 and a column in UTF-8 bytes."""
        start = self.starts[line - 1]
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return self.guard.moved(start + len(self.text[start:end].encode("utf-8")[:column].decode("utf-8", "replace")))

    def range(self, span: Span) -> tuple[int, int]:
        """Start and end offset of a span."""
        return self.offset(span.line, span.column), self.offset(span.end_line, span.end_column)

    def expression(self, span: Span) -> cst.BaseExpression:
        """The expression at a span, else `EditError`."""
        try:
            return self.expressions[self.range(span)]
        except (KeyError, IndexError):
            raise EditError(f"no expression at line {span.line}, column {span.column + 1}") from None

    def statement(self, span: Span) -> Statement:
        """The statement that starts where a span does, else `EditError`."""
        try:
            return self.statements[self.offset(span.line, span.column)]
        except (KeyError, IndexError):
            raise EditError(f"no statement at line {span.line}, column {span.column + 1}") from None

    def around(self, nodes: Iterable[cst.CSTNode]) -> set[cst.CSTNode]:
        """Nodes and all that they stand in."""
        found: set[cst.CSTNode] = set()
        for node in nodes:
            current: cst.CSTNode | None = node
            while current is not None and current not in found:
                found.add(current)
                current = self.parents.get(current)
        return found

    def touches_word(self, node: cst.CSTNode) -> bool:
        """Whether a keyword stands right before or after an expression, with no space between."""
        start, end = self.bounds[node]
        text = self.guard.text
        return bool(re.search(r"\w\Z", text[max(start - 1, 0) : start]) or re.match(r"\w", text[end : end + 1]))


def locate(text: str) -> Located:
    """Parses a text (without byte-order mark) and indexes its nodes.

    Raises:
        UnsafeSource: libcst can't parse it or doesn't give it back unchanged.
    """
    guard = Guard(text)
    try:
        module = with_own_header(cst.parse_module(guard.text))
    except cst.ParserSyntaxError as error:
        raise UnsafeSource(f"line {error.raw_line}: not understood by libcst") from None
    written = Writing(module)
    code = written.code
    if code != guard.text or guard.restore(code) != text:
        raise UnsafeSource("libcst doesn't give its text back unchanged")
    starts = line_starts(guard.text)

    def offsets(place: CodeRange) -> tuple[int, int]:
        first, last = place.start, place.end
        return starts[first.line - 1] + first.column, starts[last.line - 1] + last.column

    positions = written.places
    located = Located(text, guard, module, {}, {}, {}, written.parents)
    for node, place in positions.items():
        if isinstance(node, cst.BaseExpression):
            start, end = offsets(place)
            if isinstance(node, (cst.Tuple, cst.GeneratorExp)) and node.lpar:
                start, end = offsets(positions[node.lpar[-1]])[0], offsets(positions[node.rpar[0]])[1]
            located.expressions[start, end] = node
            if node.lpar:
                start, end = offsets(positions[node.lpar[0]])[0], offsets(positions[node.rpar[-1]])[1]
            located.bounds[node] = start, end
            if isinstance(node, cst.Call) and has_bare_generator(node):
                opening = offsets(positions[node.whitespace_before_args])[0] - 1
                located.expressions[opening, offsets(place)[1]] = node.args[0].value
        elif isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            located.bounds[node] = offsets(place)
            located.statements[located.bounds[node][0]] = node
    return located


def has_bare_generator(call: cst.Call) -> bool:
    """Whether a call is like `any(x for x in y)`, whose parentheses `ast` counts to the generator."""
    return len(call.args) == 1 and isinstance(call.args[0].value, cst.GeneratorExp) and not call.args[0].value.lpar
