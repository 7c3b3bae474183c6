"""Changes to one call that leave the rest of it as it was typed: its callee, and single arguments."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from .render import parenthesized

SEPARATOR = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def with_parentheses(args: Sequence[cst.Arg]) -> list[cst.Arg]:
    """The arguments of a call that gets another one: a generator can't share the call's parentheses any more."""
    return [
        arg.with_changes(value=parenthesized(arg.value))
        if isinstance(arg.value, cst.GeneratorExp) and not arg.value.lpar
        else arg
        for arg in args
    ]


def prepend(call: cst.Call, values: Sequence[cst.BaseExpression]) -> cst.Call:
    """The call with further positional arguments in front."""
    if not values:
        return call
    args = with_parentheses(call.args)
    new = [cst.Arg(value, comma=SEPARATOR) for value in values]
    if not args:
        new[-1] = new[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return call.with_changes(args=[*new, *args])


def set_keyword(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Call:
    """The call with a keyword argument replaced, or added after the last one in the same layout."""
    args = with_parentheses(call.args)
    for index, arg in enumerate(args):
        if arg.keyword is not None and arg.keyword.value == name:
            args[index] = arg.with_changes(value=value)
            return call.with_changes(args=args)
    new = cst.Arg(value, cst.Name(name), cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")))
    if args:
        args[-1], new = joined(call, args[-1], new)
    return call.with_changes(args=[*args, new])


def joined(call: cst.Call, last: cst.Arg, new: cst.Arg) -> tuple[cst.Arg, cst.Arg]:
    """The last argument and one more after it: on its own line if the arguments stand one to a line."""
    first = call.whitespace_before_args
    separator = SEPARATOR.with_changes(whitespace_after=first) if not is_inline(first) else SEPARATOR
    if len(call.args) > 1:
        previous = call.args[-2].comma
        separator = previous if isinstance(previous, cst.Comma) else separator
    if isinstance(last.comma, cst.Comma):  # a trailing comma: the new argument ends with one, too
        closing = last.comma
        return last.with_changes(comma=plain(separator)), new.with_changes(comma=closing)
    closing_space = last.whitespace_after_arg
    return last.with_changes(comma=plain(separator), whitespace_after_arg=cst.SimpleWhitespace("")), new.with_changes(
        whitespace_after_arg=closing_space
    )


def is_inline(space: cst.BaseParenthesizableWhitespace) -> bool:
    """Whether whitespace stays on its line."""
    return isinstance(space, cst.SimpleWhitespace)


def plain(comma: cst.Comma) -> cst.Comma:
    """A separator without the comments that belong to another argument."""
    space = comma.whitespace_after
    if isinstance(space, cst.ParenthesizedWhitespace):
        first = space.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
        space = space.with_changes(first_line=first, empty_lines=[])
    return cst.Comma(whitespace_after=space)


def drop_keyword(call: cst.Call, name: str) -> cst.Call:
    """The call without a keyword argument; unchanged if it has none of that name."""
    args = list(call.args)
    for index, arg in enumerate(args):
        if arg.keyword is not None and arg.keyword.value == name:
            del args[index]
            if args and index == len(args):  # it was the last: the one before ends the call now
                args[-1] = args[-1].with_changes(comma=arg.comma, whitespace_after_arg=arg.whitespace_after_arg)
            return call.with_changes(args=args)
    return call
