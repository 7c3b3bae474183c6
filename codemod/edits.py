"""What a rule asks for: small records of changes to the source, addressed by `ast` positions.

Rules only describe changes; `apply` makes them all in one pass. Any number of edits may nest: a change around a longer
range is outside, and for equal ranges the edit listed first is outermost.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from .dataclass import dataclass, field
from .fstrings import fstring_spans as fstring_spans


@dataclass(frozen=True, order=True)
class Span:
    """Where a node stands: lines from 1, columns from 0 in UTF-8 bytes, as `ast` counts them."""

    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def of(cls, node: ast.AST) -> Span:
        """The span of an `ast` expression or statement (of a decorated definition: from its `def` or `class`)."""
        line, column = getattr(node, "lineno", None), getattr(node, "col_offset", None)
        end_line, end_column = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
        if line is None or column is None or end_line is None or end_column is None:
            raise TypeError(f"{type(node).__name__} has no position")
        return cls(line, column, end_line, end_column)


@dataclass(frozen=True)
class Ref:
    """A template parameter that stands for an expression of the file, with its own edits applied."""

    span: Span

    @classmethod
    def to(cls, node: ast.expr) -> Ref:
        """The reference to an `ast` expression."""
        return cls(Span.of(node))


Params = Mapping[str, object]
"""Template parameters: raw text, plain values, `Ref`s, and lists or mappings of those."""


@dataclass(frozen=True)
class Edit:
    """A change.

    Attributes:
        kind: what the report counts it as ("device", "loader", "reduction", …).
        code: the finding code whose suppression comment on the line leaves this place alone, "" for none.
        rule: the name of the rule that asks for it, set where rules are run.
    """

    kind: str = field(kw_only=True)
    code: str = field(default="", kw_only=True)
    rule: str = field(default="", kw_only=True, compare=False)


@dataclass(frozen=True)
class Wrap(Edit):
    """An expression becomes the rendered template, in which `{{ node }}` is the expression with its own edits."""

    span: Span
    template: str
    params: Params = field(default_factory=dict)


@dataclass(frozen=True)
class Replace(Edit):
    """An expression becomes the rendered template."""

    span: Span
    template: str
    params: Params = field(default_factory=dict)


@dataclass(frozen=True)
class Callee(Edit):
    """Only the callee of a call changes; arguments and formatting stay.

    `prepend` is put before the first argument: texts of templates (not names) or `Ref`s. In the template and in
    those texts, `{{ callee }}` is the old callee.
    """

    span: Span
    template: str
    params: Params = field(default_factory=dict)
    prepend: tuple[str | Ref, ...] = ()


@dataclass(frozen=True)
class Argument(Edit):
    """One keyword argument of a call is added, replaced, or with `value=None` removed (`value` is source text)."""

    span: Span
    name: str
    value: str | Ref | None


@dataclass(frozen=True)
class InsertBefore(Edit):
    """The rendered statements go before a statement, in its block, above the comment that belongs to it."""

    span: Span
    template: str
    params: Params = field(default_factory=dict)


@dataclass(frozen=True)
class InsertAfter(Edit):
    """The rendered statements go after a statement, in its block."""

    span: Span
    template: str
    params: Params = field(default_factory=dict)


@dataclass(frozen=True)
class Enclose(Edit):
    """Consecutive statements of one block, `first` to `last`, go under the rendered header (`with …:`, `if …:`)."""

    first: Span
    last: Span
    template: str
    params: Params = field(default_factory=dict)


@dataclass(frozen=True)
class Delete(Edit):
    """A statement goes away; comments above it stay, and a block that would be empty gets `pass`."""

    span: Span


@dataclass(frozen=True)
class Dedent(Edit):
    """The header of a `with`, `if`, `for` or `while` goes away and its body takes its place."""

    span: Span


@dataclass(frozen=True)
class AddImport(Edit):
    """An import statement goes after the last top-level import that precedes the first edit of the file."""

    text: str
