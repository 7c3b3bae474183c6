"""Abstract interpretation: what the parameters of a function receive of a call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Union

from . import attributes, naming, sinks
from .replacing import replace
from .values import EMPTY, Dep, FunctionRef, Value

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

Given = dict[Union[int, str], Value]
"""Arguments by position, `self` included, or by name; under `STAR` and `NAMED_STAR` what any other may be."""
STAR = "*"
NAMED_STAR = "**"


def received(ip: Interpreter, ref: FunctionRef, arguments: Arguments, frame: Frame) -> Given:
    """The evaluated arguments of a call, as the function sees them."""
    given: Given = {}
    for index, (item, value) in enumerate(arguments.positional):
        given[index + ref.shift] = _passed(ip, item, value, frame)
    for name, (item, value) in arguments.keywords.items():
        given[name] = _passed(ip, item, value, frame)
    if arguments.star is not None:
        given[STAR] = arguments.star
    if arguments.rest is not None:
        given[NAMED_STAR] = _passed(ip, *arguments.rest, frame)
    return given


def _passed(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> Value:
    """What a parameter receives: it remembers which argument expression it was.

    A row count whose batch is gone (the loop over them has ended) becomes that of the whole batch: in the function
    nothing could name the batch.
    """
    value = replace(value, arrival=None)
    if value.dep is Dep.ROWS and not frame.forward and naming.is_over(value, frame):
        return sinks.as_global(ip, node, value, frame)
    return replace(value, arg=node) if value.dep is Dep.ROWS and value.arg is None else value


def bind(ip: Interpreter, ref: FunctionRef, given: Given, frame: Frame) -> None:
    """Give every parameter its argument or its default."""
    args = ref.node.args
    names = [a.arg for a in [*args.posonlyargs, *args.args]]
    defaults = dict(zip(reversed(names), (d for d in reversed(args.defaults))))
    defaults |= {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults) if d is not None}
    given = {**dict(ref.given), **given}
    if ref.bound is not None:
        held = ip.heap[ref.bound]
        itself = Value(objs=frozenset({ref.bound}), roles=held.roles)
        if held.kind == attributes.CLASS and held.cls is not None:
            itself = Value(classes=frozenset({held.cls}))
        given = {0: itself, **given}
    for index, name in enumerate(names):
        value = given.get(index, given.get(name))
        if value is None and name not in defaults:
            value = given.get(STAR)  # what has a default is most likely not among them
        frame.env[name] = value if value is not None else _not_named(ip, defaults.get(name), given)
    for kwonly in args.kwonlyargs:
        value = given.get(kwonly.arg)
        frame.env[kwonly.arg] = value if value is not None else _not_named(ip, defaults.get(kwonly.arg), given)
    if args.vararg is not None:
        extra = [v for k, v in given.items() if isinstance(k, int) and k >= len(names)]
        frame.env[args.vararg.arg] = Value(items=tuple(extra))
    if args.kwarg is not None:
        known = {*names, *[a.arg for a in args.kwonlyargs]}
        cell = ip.allocate(ref.node, frame, "kwargs")
        for key, value in given.items():
            if isinstance(key, str) and key not in known and key not in (STAR, NAMED_STAR):
                value = _kept(ip, value, frame)
                ip.heap.store(cell, key, value)
                ip.heap.add(cell, value)
        ip.heap.add(cell, given.get(NAMED_STAR, EMPTY))
        frame.env[args.kwarg.arg] = Value(objs=frozenset({cell}))


def _not_named(ip: Interpreter, default: ast.expr | None, given: Given) -> Value:
    """A parameter that no argument names: it may be in a mapping that is unpacked, unless its default is no `None`."""
    may_be = default is None or (isinstance(default, ast.Constant) and default.value is None)
    if may_be and NAMED_STAR in given:
        return given[NAMED_STAR]
    return EMPTY if default is None else ip.sites.values.get(default, EMPTY)


def _kept(ip: Interpreter, value: Value, frame: Frame) -> Value:
    """A row count that goes into `**kwargs` is made global where it is passed."""
    if value.dep is Dep.ROWS and value.arg is not None and frame.caller is not None:
        return sinks.as_global(ip, value.arg, value, frame.caller)
    return value
