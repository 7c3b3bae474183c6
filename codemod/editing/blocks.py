"""Changes to the statements of one block: insert, enclose, delete, dedent; any number of them, nested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union, cast

import libcst as cst

from ..dataclass import dataclass, field
from ..edits import Dedent, Delete, Edit, Enclose, InsertAfter, InsertBefore
from .errors import EditError
from .locate import Statement
from .render import Line, Renderer


@dataclass
class Comments:
    """Lines that a deleted statement leaves behind."""

    lines: list[cst.EmptyLine]


Node = Union[cst.SimpleStatementLine, cst.BaseCompoundStatement, Comments]


@dataclass
class Piece:
    """Units `low` to `high` of a block as they stand now; `main` is the statement that they are about."""

    low: int
    high: int
    nodes: list[Node]
    main: Node


@dataclass
class Change:
    """A statement edit with the units of the block that it is about."""

    edit: Edit
    low: int
    high: int
    order: int


@dataclass
class Block:
    """The units of a block: original statements (for lookup) and their lines as edited inside."""

    originals: list[Statement] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def add(self, original: cst.BaseStatement, line: Line, split: bool) -> None:
        """Adds one line; `split` breaks `a; b` into two lines, so that each can be changed."""
        if not isinstance(original, cst.SimpleStatementLine) or not isinstance(line, cst.SimpleStatementLine):
            self.originals.append(cast(Statement, original))
            self.lines.append(line)
        elif len(line.body) == 1 or not split:
            self.originals.append(original.body[0])
            self.lines.append(line)
        else:
            for index, small in enumerate(line.body):
                alone = cst.SimpleStatementLine([small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
                if index == 0:
                    alone = alone.with_changes(leading_lines=line.leading_lines)
                if index == len(line.body) - 1:
                    alone = alone.with_changes(trailing_whitespace=line.trailing_whitespace)
                self.originals.append(original.body[index])
                self.lines.append(alone)


def rebuild(block: Block, changes: Sequence[Change], renderer: Renderer, indent: str | None) -> list[Piece]:
    """Makes the changes from the inside out and returns the pieces of the block in order."""
    pieces = [Piece(index, index, [line], line) for index, line in enumerate(block.lines)]
    for change in reversed(outside_in(changes)):
        inside = [piece for piece in pieces if change.low <= piece.low and piece.high <= change.high]
        if not inside or inside[0].low != change.low or inside[-1].high != change.high:
            raise EditError(f"{type(change.edit).__name__} crosses another edit")
        at = pieces.index(inside[0])
        with renderer.traces.of(change.edit):
            pieces[at : at + len(inside)] = [changed(inside, change.edit, renderer, indent)]
    return pieces


def outside_in(changes: Sequence[Change]) -> list[Change]:
    """Longer ranges first, then in the order listed; statements inserted after the same one keep their order."""
    ordered = sorted(changes, key=lambda change: (change.low - change.high, change.order))
    for start in range(len(ordered)):
        end = start
        while end < len(ordered) and isinstance(ordered[end].edit, InsertAfter) and same(ordered[start], ordered[end]):
            end += 1
        seen = (
            start > 0 and isinstance(ordered[start - 1].edit, InsertAfter) and same(ordered[start - 1], ordered[start])
        )
        if not seen:
            ordered[start:end] = reversed(ordered[start:end])
    return ordered


def same(one: Change, other: Change) -> bool:
    """Whether two changes are about the same units."""
    return (one.low, one.high) == (other.low, other.high)


def changed(inside: list[Piece], edit: Edit, renderer: Renderer, indent: str | None) -> Piece:
    """One piece out of those that an edit is about."""
    nodes = [node for piece in inside for node in piece.nodes]
    piece = Piece(inside[0].low, inside[-1].high, nodes, inside[0].main)
    if isinstance(edit, InsertBefore):
        insert_before(piece, list(renderer.statements(edit.template, edit.params)))
    elif isinstance(edit, InsertAfter):
        piece.nodes = [*nodes, *renderer.statements(edit.template, edit.params)]
    elif isinstance(edit, Delete):
        delete(piece)
    elif isinstance(edit, Dedent):
        dedent(piece)
    elif isinstance(edit, Enclose):
        header = renderer.header(edit.template, edit.params)
        body = indented(nodes, indent)
        first = cast(Line, body.body[0])
        header = header.with_changes(leading_lines=[*first.leading_lines, *header.leading_lines])
        body = body.with_changes(body=[first.with_changes(leading_lines=[]), *body.body[1:]])
        renderer.traces.note(body)
        piece.main = header.with_changes(body=body)
        piece.nodes = [piece.main]
    return piece


def insert_before(piece: Piece, new: list[Line]) -> None:
    """Puts statements above the comment of the first one; blank lines above it stay on top."""
    at = 1 if isinstance(piece.nodes[0], Comments) else 0
    if at == 0:
        first = cast(Line, piece.nodes[0])
        above, own = split_leading(first.leading_lines)
        spaced = isinstance(first, (cst.FunctionDef, cst.ClassDef))
        moved = first.with_changes(leading_lines=first.leading_lines if spaced else own)
        new[0] = new[0].with_changes(leading_lines=[*above, *new[0].leading_lines])
        piece.main = moved if piece.main is first else piece.main
        piece.nodes[0] = moved
    piece.nodes[at:at] = new


def split_leading(lines: Sequence[cst.EmptyLine]) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """Leading lines up to the last blank one, and the comments below it, which belong to the statement."""
    blanks = [index for index, line in enumerate(lines) if line.comment is None]
    cut = blanks[-1] + 1 if blanks else 0
    return list(lines[:cut]), list(lines[cut:])


def delete(piece: Piece) -> None:
    """Takes the statement out; its comments stay where it was, above what was inserted in its place."""
    at = next((index for index, node in enumerate(piece.nodes) if node is piece.main), None)
    if at is None or isinstance(piece.main, Comments):
        raise EditError("Delete of a statement that is gone")
    lead = list(piece.main.leading_lines)
    others = [node for node in piece.nodes if node is not piece.main]
    piece.main = Comments(lead)
    if others and not isinstance(others[0], Comments):
        own = list(others[0].leading_lines)
        others[0] = others[0].with_changes(leading_lines=[*lead, *own] if at == 0 else [*own, *lead])
    piece.nodes = others or [piece.main]


def dedent(piece: Piece) -> None:
    """Puts the body of a compound statement in its place."""
    main: Any = piece.main
    if not isinstance(main, (cst.With, cst.If, cst.For, cst.While)) or getattr(main, "orelse", None) is not None:
        raise EditError(f"Dedent of {type(main).__name__}")
    lead = list(main.leading_lines)
    new: list[Node] = []
    if isinstance(main.body, cst.IndentedBlock):
        comment = main.body.header.comment
        lead += [] if comment is None else [cst.EmptyLine(comment=comment)]
        new += cast("Sequence[Line]", main.body.body)
        tail = [Comments(list(main.body.footer))] if main.body.footer else []
    else:
        suite = cast(cst.SimpleStatementSuite, main.body)
        new.append(cst.SimpleStatementLine(suite.body, trailing_whitespace=suite.trailing_whitespace))
        tail = []
    first = cast(Line, new[0])
    new[0] = first.with_changes(leading_lines=[*lead, *first.leading_lines])
    at = next(index for index, node in enumerate(piece.nodes) if node is main)
    piece.nodes[at : at + 1] = [*new, *tail]
    piece.main = new[0]


def flat(nodes: Sequence[Node]) -> tuple[list[Line], list[cst.EmptyLine]]:
    """Statements with the lines that were left behind above them, and those left after the last one."""
    lines: list[Line] = []
    left: list[cst.EmptyLine] = []
    for node in nodes:
        if isinstance(node, Comments):
            left += node.lines
            continue
        own = list(node.leading_lines)
        if left and own and own[0].comment is None and all(line.comment is None for line in left):
            left = []  # blank lines only: don't add them up
        lines.append(node.with_changes(leading_lines=[*left, *own]) if left else node)
        left = []
    return lines, left if any(line.comment is not None for line in left) else []


def indented(nodes: Sequence[Node], indent: str | None = None) -> cst.IndentedBlock:
    """A block of statements below a header, `pass` if there are none."""
    lines, footer = flat(nodes)
    return cst.IndentedBlock(lines or [cst.SimpleStatementLine([cst.Pass()])], indent=indent, footer=footer)
