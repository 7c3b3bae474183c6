"""Makes the edits of a file in one libcst pass: `apply(text, edits)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Union, cast

import libcst as cst

from .editing.blocks import Block, Change, Piece, flat, indented, rebuild
from .editing.errors import EditError, UnsafeSource
from .editing.expressions import OnExpression, changed
from .editing.imports import is_import, place, set_apart
from .editing.locate import Located, Statement, locate
from .editing.quotes import swap_quotes
from .editing.render import Line, Renderer, parenthesized
from .edits import (
    AddImport,
    Argument,
    Callee,
    Dedent,
    Delete,
    Edit,
    Enclose,
    InsertAfter,
    InsertBefore,
    Replace,
    Span,
    Wrap,
)

__all__ = ["EditError", "UnsafeSource", "apply", "traced"]

OnStatement = Union[InsertBefore, InsertAfter, Enclose, Delete, Dedent]
Suite = Union[cst.Module, cst.BaseSuite]

BLANK_END = re.compile(r"(?<=\n)[ \t\r\n]*[ \t][ \t\r\n]*\Z")


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text with all edits made.

    Args:
        text: a whole file without byte-order mark.
        edits: in any order; of equal ranges, the first listed is outermost.

    Raises:
        EditError: an edit's place doesn't exist, edits cross each other, or a template is wrong.
        UnsafeSource: the parser doesn't give the text back unchanged.
    """
    return traced(text, edits)[0]


def traced(text: str, edits: Sequence[Edit]) -> tuple[str, Callable[[], list[frozenset[int]]]]:
    """As `apply`, and what tells the lines of the new text that each edit made (none where it only takes away)."""
    if not edits:
        return text, list
    blank = BLANK_END.search(text)  # libcst loses blanks in the last lines
    end = blank.start() if blank else len(text)
    located = locate(text[:end])
    editor = Editor(located, edits)
    module = located.module.visit(editor)
    editor.check()
    lines = partial(editor.renderer.traces.lines, module, edits)
    return located.guard.restore(located.rewritten(module)) + text[end:], lines


class Editor(cst.CSTTransformer):
    """Rebuilds the tree from the leaves up; each node is changed by the edits at its place as it is left.

    What no edit is in stays as it is, unvisited.
    """

    def __init__(self, located: Located, edits: Sequence[Edit]) -> None:
        super().__init__()
        self.located = located
        self.module = located.module
        self.renderer = Renderer(located.module, self.referred)
        self.parents: list[cst.CSTNode] = []
        self.done: set[int] = set()
        self.rendering: dict[cst.CSTNode, cst.BaseExpression] = {}
        self.resolving: set[cst.CSTNode] = set()
        self.imports = [edit for edit in edits if isinstance(edit, AddImport)]
        self.pending = [edit for edit in edits if not isinstance(edit, AddImport)]
        self.on_expressions: dict[cst.CSTNode, list[OnExpression]] = {}
        self.on_statements: dict[Statement, list[tuple[int, OnStatement]]] = {}
        self.ends = {located.statement(edit.last) for edit in self.pending if isinstance(edit, Enclose)}
        for order, edit in enumerate(self.pending):
            if isinstance(edit, (Wrap, Replace, Callee, Argument)):
                self.on_expressions.setdefault(located.expression(edit.span), []).append(edit)
            elif isinstance(edit, (InsertBefore, InsertAfter, Enclose, Delete, Dedent)):
                first = edit.first if isinstance(edit, Enclose) else edit.span
                self.on_statements.setdefault(located.statement(first), []).append((order, edit))
            else:
                raise EditError(f"unknown edit {type(edit).__name__}")
        self.busy = located.around([*self.on_expressions, *self.on_statements, *self.ends])

    def check(self) -> None:
        """Raises `EditError` if an edit was not made."""
        for edit in self.pending:
            if id(edit) not in self.done:
                raise EditError(f"{type(edit).__name__} ({edit.kind}) was not made: {edit}")

    # Traversal

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.parents.append(node)
        return node in self.busy and not isinstance(node, (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite))

    def on_leave(self, original_node: cst.CSTNode, updated_node: Any) -> Any:
        self.parents.pop()
        if original_node not in self.busy and not isinstance(original_node, cst.Module):
            return updated_node
        if isinstance(original_node, (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite)):
            return self.suite(original_node)
        if isinstance(original_node, cst.BaseExpression):
            return self.expression(original_node, updated_node)
        if isinstance(original_node, cst.FormattedStringExpression):
            swapped = swap_quotes(self.module, original_node, updated_node, self.parents)
            self.renderer.traces.copied(updated_node, swapped)
            return swapped
        if isinstance(original_node, cst.If):
            return self.elif_as_else(original_node, updated_node)
        return updated_node

    def referred(self, span: Span) -> cst.BaseExpression:
        """The expression at a span with its own edits; inside an edit of that very expression, as it is by then."""
        node = self.located.expression(span)
        if node in self.rendering:
            return self.rendering[node]
        if node in self.resolving:
            raise EditError(f"the expression at line {span.line} refers to itself")
        parents, self.parents = self.parents, []
        self.resolving.add(node)
        try:
            return cast(cst.BaseExpression, node.visit(self))
        finally:
            self.resolving.remove(node)
            self.parents = parents

    # Expressions

    def expression(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        """An expression with the edits at its place, from the inside out."""
        edits = self.on_expressions.get(original)
        if not edits:
            return updated
        if original in self.rendering:
            raise EditError(f"the expression at line {edits[0].span.line} refers to itself")
        own = [edit for edit in edits if isinstance(edit, (Callee, Argument))]
        around = [edit for edit in edits if isinstance(edit, (Wrap, Replace))]
        for edit in [*own, *reversed(around)]:
            self.rendering[original] = updated
            with self.renderer.traces.of(edit):
                updated = changed(self.renderer, edit, updated, self.parents[-1] if self.parents else None)
            self.done.add(id(edit))
        del self.rendering[original]
        if not updated.lpar and self.located.touches_word(original):  # return(x), "a"if(x)else"b"
            updated = parenthesized(updated)
        return updated

    # Statements

    def suite(self, original: cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite) -> Suite:
        """A block with its statements edited inside and out."""
        if isinstance(original, cst.SimpleStatementSuite):
            return self.one_line_suite(original)
        block = Block()
        for statement in original.body:
            line = cast(Line, statement.visit(self))
            parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else []
            block.add(statement, line, any(small in self.on_statements or small in self.ends for small in parts))
        pieces = self.pieces(block, original.indent if isinstance(original, cst.IndentedBlock) else None)
        if isinstance(original, cst.Module) and self.imports:
            self.add_imports(original, pieces)
        lines, footer = flat([node for piece in pieces for node in piece.nodes])
        if isinstance(original, cst.IndentedBlock) and not lines:
            lines = [cst.SimpleStatementLine([cst.Pass()])]
        return original.with_changes(body=lines, footer=[*footer, *original.footer])

    def one_line_suite(self, original: cst.SimpleStatementSuite) -> cst.BaseSuite:
        """`if x: a; b`, broken into lines if one of its statements changes as a whole."""
        smalls = [cast(cst.BaseSmallStatement, small.visit(self)) for small in original.body]
        if not any(small in self.on_statements for small in original.body):
            return original.with_changes(body=smalls)
        block = Block()
        line = cst.SimpleStatementLine(smalls, trailing_whitespace=original.trailing_whitespace)
        block.add(cst.SimpleStatementLine(original.body), line, True)
        return indented([node for piece in self.pieces(block, None) for node in piece.nodes])

    def pieces(self, block: Block, indent: str | None) -> list[Piece]:
        """The pieces of a block after the statement edits on it."""
        index = {original: at for at, original in enumerate(block.originals)}
        changes = []
        for original, low in index.items():
            for order, edit in self.on_statements.get(original, []):
                last = self.located.statement(edit.last) if isinstance(edit, Enclose) else original
                high = index.get(last, -1)
                if high < low:
                    raise EditError(f"Enclose from line {edit_line(edit)} doesn't end in the same block")
                changes.append(Change(edit, low, high, order))
                self.done.add(id(edit))
        return rebuild(block, changes, self.renderer, indent)

    def elif_as_else(self, original: cst.If, updated: cst.If) -> cst.If:
        """`elif` as `else:` with an `if` below it, where something goes before, after or around that `if`."""
        branch, new = original.orelse, updated.orelse
        if not isinstance(branch, cst.If) or not isinstance(new, cst.If) or branch not in self.on_statements:
            return updated
        block = Block([branch], [new.with_changes(leading_lines=[])])
        body = indented([node for piece in self.pieces(block, None) for node in piece.nodes])
        return updated.with_changes(orelse=cst.Else(body, leading_lines=new.leading_lines))

    def add_imports(self, module: cst.Module, pieces: list[Piece]) -> None:
        """Puts new imports among the top-level pieces."""
        at = place(module.body, self.first_use(module))
        new: list[Line] = []
        for text, edit in {edit.text: edit for edit in self.imports}.items():
            with self.renderer.traces.of(edit):
                new += self.renderer.parse(text, text, {})
        above = [piece for piece in pieces if piece.low < at]
        below = [piece for piece in pieces if piece.low >= at]
        if at == 0 or not is_import(module.body[at - 1]):
            set_apart(new, above, below)
        if above:
            above[-1].nodes.extend(new)
        else:
            pieces.insert(0, Piece(-1, -1, list(new), new[0]))

    def first_use(self, module: cst.Module) -> int:
        """Index of the first top-level line that an edit is in."""
        spans = [edit.first if isinstance(edit, Enclose) else edit.span for edit in self.pending]  # type: ignore[attr-defined]
        if not spans:
            return len(module.body)
        first = min(self.located.range(span)[0] for span in spans)
        for at, original in enumerate(self.module.body):
            small = original.body[-1] if isinstance(original, cst.SimpleStatementLine) else original
            if self.located.bounds[cast(Statement, small)][1] >= first:
                return at
        return len(module.body)


def edit_line(edit: OnStatement) -> int:
    """Line at which a statement edit starts."""
    return (edit.first if isinstance(edit, Enclose) else edit.span).line
