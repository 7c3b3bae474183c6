"""One edit of one expression."""

from __future__ import annotations

from typing import Union

import libcst as cst

from ..edits import Argument, Callee, Ref, Replace, Wrap
from . import calls
from .errors import EditError
from .render import NEED_PARENTHESES, Renderer, fitted, keeping_comments

OnExpression = Union[Wrap, Replace, Callee, Argument]


def changed(
    renderer: Renderer, edit: OnExpression, node: cst.BaseExpression, parent: cst.CSTNode | None
) -> cst.BaseExpression:
    """The expression after an edit, as it can stand below `parent`."""
    if isinstance(edit, (Callee, Argument)):
        if not isinstance(node, cst.Call):
            raise EditError(f"{type(edit).__name__} of {type(node).__name__} at line {edit.span.line}")
        return with_argument(renderer, edit, node) if isinstance(edit, Argument) else with_callee(renderer, edit, node)
    result = renderer.expression(edit.template, edit.params, {"node": node} if isinstance(edit, Wrap) else {})
    if isinstance(edit, Replace):
        result = keeping_comments(node, result)
    return fitted(renderer.module, result, parent)


def with_callee(renderer: Renderer, edit: Callee, call: cst.Call) -> cst.Call:
    """The call of another function, with further arguments in front."""
    known = {"callee": call.func}
    first = [
        bare(renderer.referred(item.span)) if isinstance(item, Ref) else renderer.inline(item, edit.params, known)
        for item in edit.prepend
    ]
    func = fitted(renderer.module, renderer.expression(edit.template, edit.params, known), call)
    arguments = [fitted(renderer.module, item, cst.Arg(item)) for item in first]
    return calls.prepend(call.with_changes(func=func), arguments)


def bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """An expression without a pair of parentheses that it doesn't need as an argument: `(a + b).backward()`."""
    if len(node.lpar) != 1 or isinstance(node, NEED_PARENTHESES):
        return node
    tight = node.lpar[0].whitespace_after.empty and node.rpar[0].whitespace_before.empty
    return node.with_changes(lpar=[], rpar=[]) if tight else node


def with_argument(renderer: Renderer, edit: Argument, call: cst.Call) -> cst.Call:
    """The call with one keyword argument added, replaced or removed."""
    if edit.value is None:
        return calls.drop_keyword(call, edit.name)
    if isinstance(edit.value, Ref):
        value = renderer.referred(edit.value.span)
    else:
        value = cst.parse_expression(edit.value, renderer.config)
        renderer.traces.note_all(value)
    return calls.set_keyword(call, edit.name, fitted(renderer.module, value, cst.Arg(value, cst.Name(edit.name))))
