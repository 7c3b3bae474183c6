"""Parses a text with libcst and finds its nodes by `ast` positions.

`ast` counts columns in UTF-8 bytes and includes the parentheses of tuples and generators; libcst counts characters and
leaves all parentheses out. Both are turned into character offsets here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Union, cast

import libcst as cst
from libcst._nodes.internal import CodegenState

from ..dataclass import dataclass
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


class Writing(CodegenState):
    """Writes a tree once, for its text, the places of its nodes and the node around each.

    What libcst offers for that writes and walks the tree again for each of them, and counts lines and columns, which
    takes longer than writing. Nodes are kept by `id`, since their own hash is a call of Python.

    Attributes:
        nodes: all nodes, inner ones first.
        places: id of a node -> (start, end) in the text, without whitespace around it.
        parents: id of a node -> the node around it.
        lines: id of a top-level statement -> (start, end) in the text, with what stands above it and on its last line.
    """

    def __init__(self, module: cst.Module) -> None:
        super().__init__(module.default_indent, module.default_newline)
        self.offset = 0
        self.nodes: list[cst.CSTNode] = []
        self.places: dict[int, tuple[int, int]] = {}
        self.parents: dict[int, cst.CSTNode] = {}
        self.lines: dict[int, tuple[int, int]] = {}
        self.above: list[tuple[cst.CSTNode, int]] = []
        module._codegen(self)

    @property
    def code(self) -> str:
        """The text."""
        return "".join(self.tokens)

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.add_token(token)

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self.offset += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        if self.above:
            self.parents[id(node)] = self.above[-1][0]
        self.above.append((node, self.offset))

    def after_codegen(self, node: cst.CSTNode) -> None:
        _, start = self.above.pop()
        if len(self.above) == 1:
            self.lines[id(node)] = start, self.offset
        self.nodes.append(node)
        self.places.setdefault(id(node), (start, self.offset))

    def record_syntactic_position(  # type: ignore[override]  # any context manager does
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Inside:
        return Inside(self, node, start_node, end_node)


class Inside:
    """Notes the place of a node that begins and ends where this is entered and left, or other nodes do."""

    def __init__(
        self, written: Writing, node: cst.CSTNode, start_node: cst.CSTNode | None, end_node: cst.CSTNode | None
    ) -> None:
        self.written, self.node, self.start_node, self.end_node = written, node, start_node, end_node
        self.start = written.offset

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        places = self.written.places
        start = self.start if self.start_node is None else places[id(self.start_node)][0]
        end = self.written.offset if self.end_node is None else places[id(self.end_node)][1]
        places[id(self.node)] = start, end


@dataclass
class Located:
    """A parsed text and its nodes by character offsets of the text that libcst read.

    Attributes:
        expressions: (start, end) -> expression, as `ast` delimits it.
        statements: start -> statement; statements of one file never share their start.
        bounds: expression (with its parentheses) or statement -> (start, end).
        parents: id of a node -> the node around it.
        lines: id of a top-level statement -> (start, end) of its lines.
    """

    text: str
    guard: Guard
    module: cst.Module
    expressions: dict[tuple[int, int], cst.BaseExpression]
    statements: dict[int, Statement]
    bounds: dict[cst.CSTNode, tuple[int, int]]
    parents: dict[int, cst.CSTNode]
    lines: dict[int, tuple[int, int]]

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
                current = self.parents.get(id(current))
        return found

    def rewritten(self, module: cst.Module) -> str:
        """The text of an edited module: top-level statements that are those of this one have theirs."""
        if not module.has_trailing_newline:  # whose last line end libcst takes away again
            return module.code
        state = CodegenState(module.default_indent, module.default_newline)
        for node in (*module.header, *module.body, *module.footer):
            place = self.lines.get(id(node))
            if place is None:
                node._codegen(state)
            else:
                state.add_token(self.guard.text[slice(*place)])
        return "".join(state.tokens) or module.default_newline

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
    places = written.places
    located = Located(text, guard, module, {}, {}, {}, written.parents, written.lines)
    for node in written.nodes:
        kind = kind_of(type(node))
        if kind is cst.BaseExpression:
            place_expression(located, places, cast(cst.BaseExpression, node))
        elif kind is not None:
            located.bounds[node] = places[id(node)]
            located.statements[places[id(node)][0]] = cast(Statement, node)
    return located


@lru_cache(maxsize=None)
def kind_of(cls: type[cst.CSTNode]) -> type[cst.CSTNode] | None:
    """What a class of nodes is for us; `isinstance` would go through all classes of libcst for each class of nodes."""
    kinds = (cst.BaseExpression, cst.BaseSmallStatement, cst.BaseCompoundStatement)
    return next((kind for kind in kinds if kind in cls.__mro__), None)


def place_expression(located: Located, places: Mapping[int, tuple[int, int]], node: cst.BaseExpression) -> None:
    """Notes where an expression stands."""
    start, end = place = places[id(node)]
    if node.lpar and isinstance(node, (cst.Tuple, cst.GeneratorExp)):
        start, end = places[id(node.lpar[-1])][0], places[id(node.rpar[0])][1]
    located.expressions[start, end] = node
    if node.lpar:
        start, end = places[id(node.lpar[0])][0], places[id(node.rpar[-1])][1]
    located.bounds[node] = start, end
    if isinstance(node, cst.Call) and has_bare_generator(node):
        opening = places[id(node.whitespace_before_args)][0] - 1
        located.expressions[opening, place[1]] = node.args[0].value


def has_bare_generator(call: cst.Call) -> bool:
    """Whether a call is like `any(x for x in y)`, whose parentheses `ast` counts to the generator."""
    return len(call.args) == 1 and isinstance(call.args[0].value, cst.GeneratorExp) and not call.args[0].value.lpar
