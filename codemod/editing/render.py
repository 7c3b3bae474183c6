"""Turns rendered templates into libcst nodes in the style of the file.

Expressions of the file stand in the rendered text as placeholder names and are put in as nodes, so that their own
formatting, comments included, is kept.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union, cast

import libcst as cst

from .. import templates
from ..edits import Params, Ref, Span
from .errors import EditError
from .traces import Traces

Line = Union[cst.SimpleStatementLine, cst.BaseCompoundStatement]
Nodes = dict[str, cst.BaseExpression]

ATOMS = (
    cst.Name,
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.List,
    cst.Dict,
    cst.Set,
    cst.ListComp,
    cst.DictComp,
    cst.SetComp,
    cst.BaseString,
    cst.Float,
    cst.Ellipsis,
)
NEED_PARENTHESES = (cst.Tuple, cst.GeneratorExp, cst.Yield, cst.NamedExpr)
BRACKETED = (cst.Arg, cst.Element, cst.DictElement, cst.SubscriptElement, cst.FormattedStringExpression)


def parenthesized(node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression with one more pair of parentheses."""
    return node.with_changes(lpar=[cst.LeftParen(), *node.lpar], rpar=[*node.rpar, cst.RightParen()])


def is_atom(node: cst.BaseExpression) -> bool:
    """Whether an expression binds tighter than any operator around it."""
    return bool(node.lpar) or isinstance(node, ATOMS)


def stands_alone(code: str) -> bool:
    """Whether code is an expression without brackets of its surroundings."""
    if "\n" not in code and "\r" not in code:
        return True
    try:
        ast.parse(f"_ = {code}")
    except SyntaxError:
        return False
    return True


class Renderer:
    """Renders templates for one module; `referred` gives the edited node of a `Ref`."""

    def __init__(self, module: cst.Module, referred: Callable[[Span], cst.BaseExpression]) -> None:
        self.module = module
        self.config = module.config_for_parsing
        self.referred = referred
        self.traces = Traces()

    def text(self, template: str, params: Params, nodes: Nodes) -> tuple[str, Nodes]:
        """The rendered text, and the expressions that its placeholders stand for."""
        holders: Nodes = {}

        def hold(node: cst.BaseExpression) -> str:
            name = f"__distify_{len(holders)}__"
            holders[name] = node
            return name

        def plain(value: object) -> Any:
            if isinstance(value, Ref):
                return hold(self.referred(value.span))
            if isinstance(value, Mapping):
                return {key: plain(item) for key, item in value.items()}
            if isinstance(value, Sequence) and not isinstance(value, str):
                return [plain(item) for item in value]
            return value

        variables = {name: plain(value) for name, value in params.items()}
        variables.update((name, hold(node)) for name, node in nodes.items())
        return templates.render(template, variables), holders

    def expression(self, template: str, params: Params, nodes: Nodes) -> cst.BaseExpression:
        """The expression of a template; `nodes` are further variables."""
        text, holders = self.text(template, params, nodes)
        try:
            tree = cst.parse_expression(text.strip(), self.config)
        except cst.ParserSyntaxError as error:
            raise EditError(f"template {template!r} renders no expression: {text!r}") from error
        return cast(cst.BaseExpression, tree.visit(Fill(self.module, holders, self.traces)))

    def inline(self, text: str, params: Params, nodes: Nodes) -> cst.BaseExpression:
        """The expression of a template given by its own text."""
        return self.expression(f"{text} ", params, nodes)  # a space: never taken for the name of a file

    def statements(self, template: str, params: Params) -> list[Line]:
        """The statements of a template, which may begin with comments."""
        text, holders = self.text(template, params, {})
        return self.parse(template, text, holders)

    def header(self, template: str, params: Params) -> cst.BaseCompoundStatement:
        """The compound statement of a header template (`with …:`), with a body to be replaced."""
        text, holders = self.text(template, params, {})
        lines = self.parse(template, f"{text.rstrip()}\n    pass", holders)
        if len(lines) != 1 or not isinstance(lines[0], cst.BaseCompoundStatement):
            raise EditError(f"template {template!r} renders no header: {text!r}")
        return lines[0]

    def parse(self, template: str, text: str, holders: Nodes) -> list[Line]:
        """Statements out of text that is indented by four spaces."""
        lines = []
        for line in text.strip("\n").split("\n"):
            body = line.lstrip(" ")
            depth, rest = divmod(len(line) - len(body), 4)
            lines.append(self.module.default_indent * depth + " " * rest + body if body else "")
        newline = self.module.default_newline
        try:
            module = cst.parse_module(newline.join([*lines, ""]), self.config)
        except cst.ParserSyntaxError as error:
            raise EditError(f"template {template!r} renders no statement: {text!r}") from error
        if not module.body:
            raise EditError(f"template {template!r} renders no statement: {text!r}")
        first, *others = (cast(Line, line.visit(Fill(self.module, holders, self.traces))) for line in module.body)
        return [first.with_changes(leading_lines=[*module.header, *first.leading_lines]), *others]


class Fill(cst.CSTTransformer):
    """Puts expressions in the place of placeholder names, with parentheses where they are needed."""

    def __init__(self, module: cst.Module, holders: Nodes, traces: Traces) -> None:
        super().__init__()
        self.module = module
        self.holders = holders
        self.traces = traces
        self.parents: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.parents.append(node)
        return True

    def on_leave(self, original_node: cst.CSTNode, updated_node: Any) -> Any:
        self.parents.pop()
        if isinstance(original_node, cst.Name) and original_node.value in self.holders:
            held = self.holders[original_node.value]
            node = held.deep_clone()
            self.traces.copied(held, node)
            return fitted(self.module, node, self.parents[-1] if self.parents else None)
        if isinstance(original_node, cst.Call):
            updated_node = self.call(original_node, updated_node)
        self.traces.note(updated_node)
        return updated_node

    def call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        """Uses the parentheses of a call instead of those of an argument."""
        args = list(updated.args)
        for index, arg in enumerate(original.args):
            if not isinstance(arg.value, cst.Name) or arg.value.value not in self.holders or arg.star:
                continue
            node = args[index].value
            if isinstance(node, cst.GeneratorExp) and not node.lpar and len(args) > 1:
                args[index] = args[index].with_changes(value=parenthesized(node))
            elif len(node.lpar) == 1 and not isinstance(node, NEED_PARENTHESES):
                before, after = node.lpar[0].whitespace_after, node.rpar[0].whitespace_before
                bare = node.with_changes(lpar=[], rpar=[])
                args[index] = args[index].with_changes(value=bare, whitespace_after_arg=after)
                if index == 0:
                    updated = updated.with_changes(whitespace_before_args=before)
                else:
                    comma = cast(cst.Comma, args[index - 1].comma)
                    if not before.empty:
                        args[index - 1] = args[index - 1].with_changes(
                            comma=comma.with_changes(whitespace_after=before)
                        )
        return updated.with_changes(args=args)


def fitted(module: cst.Module, node: cst.BaseExpression, parent: cst.CSTNode | None) -> cst.BaseExpression:
    """An expression as it can stand below `parent`, with parentheses where they are needed."""
    if node.lpar:
        return node
    if isinstance(parent, BRACKETED):
        bare = isinstance(node, cst.GeneratorExp) and isinstance(parent, cst.Arg) and parent.keyword is None
        needs = isinstance(node, NEED_PARENTHESES) or (
            isinstance(node, cst.Lambda) and isinstance(parent, cst.FormattedStringExpression)
        )
        return parenthesized(node) if needs and not bare else node
    whole = isinstance(node, cst.Integer) and not isinstance(parent, cst.Attribute)  # 0.real is none
    operand = isinstance(parent, cst.BaseExpression) and not (is_atom(node) or whole)
    if isinstance(node, cst.GeneratorExp) or operand or not stands_alone(module.code_for_node(node)):
        return parenthesized(node)
    return node


def keeping_comments(old: cst.BaseExpression, new: cst.BaseExpression) -> cst.BaseExpression:
    """The replacement of an expression, inside the parentheses of the old one if comments stand in those."""
    spaces = [*(mark.whitespace_after for mark in old.lpar), *(mark.whitespace_before for mark in old.rpar)]
    lines = [item for space in spaces if isinstance(space, cst.ParenthesizedWhitespace) for item in comments(space)]
    return new.with_changes(lpar=old.lpar, rpar=old.rpar) if lines and not new.lpar else new


def comments(space: cst.ParenthesizedWhitespace) -> list[cst.Comment]:
    """The comments in whitespace."""
    lines = [space.first_line.comment, *(line.comment for line in space.empty_lines)]
    return [comment for comment in lines if comment is not None]
