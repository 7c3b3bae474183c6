"""Abstract interpretation: statements, each by a function of its own."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import ahead, attributes, augmented, expressions, implied, modules, narrowing, ranks, row_loops, stores
from .frame import Frame, join_env
from .joins import join
from .values import HOST, FunctionRef, Value

if TYPE_CHECKING:
    from .interpreter import Interpreter

LOOP_ROUNDS = 3

Loop = ast.For | ast.AsyncFor | ast.While


def block(ip: Interpreter, statements: list[ast.stmt], frame: Frame) -> bool:
    """Interpret statements in order; return whether control surely leaves the block."""
    for item in statements:
        frame.statement = item
        if statement(ip, item, frame):
            return True
    return False


def statement(ip: Interpreter, node: ast.stmt, frame: Frame) -> bool:
    """Interpret one statement; return whether control surely leaves the block."""
    ip.budget.check()
    handler = _HANDLERS.get(type(node))
    if handler is not None:
        return bool(handler(ip, node, frame))
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            expressions.evaluate(ip, child, frame)
    return isinstance(node, (ast.Raise, ast.Break, ast.Continue))


def _import(ip: Interpreter, node: ast.Import, frame: Frame) -> None:
    for alias in node.names:
        name = alias.asname or alias.name.split(".")[0]
        ip.bind(name, modules.imported(ip, node, alias.name, bool(alias.asname)), frame)


def _importfrom(ip: Interpreter, node: ast.ImportFrom, frame: Frame) -> None:
    for alias in node.names:
        if alias.name == "*":
            for name, value in modules.starred(ip, node).items():
                ip.bind(name, value, frame)
        else:
            ip.bind(alias.asname or alias.name, modules.member(ip, node, alias.name), frame)


def _assert(ip: Interpreter, node: ast.Assert, frame: Frame) -> None:
    expressions.decide(ip, node.test, frame)
    if node.msg is not None:
        expressions.evaluate(ip, node.msg, frame)


def _defaults(ip: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
    for default in [*node.args.defaults, *[d for d in node.args.kw_defaults if d is not None]]:
        expressions.evaluate(ip, default, frame)


def _functiondef(ip: Interpreter, node: ast.FunctionDef, frame: Frame) -> None:
    _defaults(ip, node, frame)
    ip.closures[node] = frame
    ip.bind(node.name, _decorated(ip, node, Value(defs=frozenset({FunctionRef(node)})), frame), frame)


def _decorated(
    ip: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, made: Value, frame: Frame
) -> Value:
    """What the decorators of a function or class make of it, the innermost first."""
    found = [expressions.evaluate(ip, decorator, frame) for decorator in node.decorator_list]
    for decorator in reversed(found):
        made = implied.decorate(ip, decorator, made, frame)
    return made


def _classdef(ip: Interpreter, node: ast.ClassDef, frame: Frame) -> None:
    bases: list[ast.ClassDef | str] = []
    for base in node.bases:
        value = expressions.evaluate(ip, base, frame)
        bases.extend(value.classes)
        if value.ref:
            bases.extend(value.ref.split("|"))
    ip.classes.define(node, bases)
    ip.bind(node.name, Value(classes=frozenset({node})), frame)
    inner = Frame(env={}, node=node, outer=frame, caller=frame.caller, loops=frame.loops)
    for item in node.body:
        inner.statement = item
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            ip.closures[item] = frame
            _defaults(ip, item, inner)
            itself = Value(defs=frozenset({FunctionRef(item)}))
            made = _decorated(ip, item, itself, inner)
            if made is not itself:
                ip.wrapped[item] = made.defs
        else:
            statement(ip, item, inner)
    cell = ip.heap.allocate(node, attributes.CLASS, cls=node)
    for name, value in inner.env.items():
        ip.heap.store(cell, name, value)
    _decorated(ip, node, Value(classes=frozenset({node})), frame)  # one may put the class into a registry


def _assign(ip: Interpreter, node: ast.Assign, frame: Frame) -> None:
    value = expressions.evaluate(ip, node.value, frame)
    for target in node.targets:
        stores.store(ip, target, value, node, frame)


def _annassign(ip: Interpreter, node: ast.AnnAssign, frame: Frame) -> None:
    if node.value is not None:
        value = expressions.evaluate(ip, node.value, frame)
        stores.store(ip, node.target, value, node, frame)


def _augassign(ip: Interpreter, node: ast.AugAssign, frame: Frame) -> None:
    augmented.augment(ip, node, frame)


def _return(ip: Interpreter, node: ast.Return, frame: Frame) -> bool:
    if node.value is not None:
        returned = expressions.evaluate(ip, node.value, frame)
        frame.returned = join(frame.returned, ranks.added(returned, frame.swayed))
    return True


def _global(ip: Interpreter, node: ast.Global, frame: Frame) -> None:
    frame.global_names.update(node.names)


def _nonlocal(ip: Interpreter, node: ast.Nonlocal, frame: Frame) -> None:
    frame.nonlocal_names.update(node.names)


def _if(ip: Interpreter, node: ast.If, frame: Frame) -> bool:
    expressions.decide(ip, node.test, frame)
    around = frame.swayed
    if ip.program.by_hand and not frame.forward:
        frame.swayed = around | ranks.deciding(ip, node.test)
    left = _branches(ip, [node.body, node.orelse], frame, narrowing.tested(ip, node.test))
    frame.swayed = around
    return left


def _branches(
    ip: Interpreter, bodies: list[list[ast.stmt]], frame: Frame, tested: narrowing.Tested | None = None
) -> bool:
    """Interpret alternatives from the same environment and join those that go on.

    `tested` says what a name is in the first alternative and in the second.
    """
    start, going = frame.env, []
    for index, body in enumerate(bodies):
        frame.env = dict(start)
        held = frame.env.get(tested.name) if tested is not None else None
        if held is not None and tested is not None:
            narrowed = tested.narrow(held, index == 0)
            if narrowed is None:
                continue
            frame.env[tested.name] = narrowed
        if not block(ip, body, frame):
            going.append(frame.env)
    frame.env = join_env(going) if going else start
    return not going


def _match(ip: Interpreter, node: ast.Match, frame: Frame) -> None:
    subject = expressions.evaluate(ip, node.subject, frame)
    for case in node.cases:
        for part in ast.walk(case.pattern):
            name = getattr(part, "name", None)
            if isinstance(name, str):
                ip.bind(name, subject, frame)
    _branches(ip, [case.body for case in node.cases] + [[]], frame)


def _for(ip: Interpreter, node: ast.For, frame: Frame) -> None:
    frame.fetching = node
    element = expressions.iterate(ip, node.iter, frame)
    frame.fetching = None
    if ip.program.by_hand and element.items is None and not element.sources:
        element = ranks.added(element, ranks.of(ip, node.iter))
    _loop(ip, node, frame, element)


def _while(ip: Interpreter, node: ast.While, frame: Frame) -> None:
    expressions.decide(ip, node.test, frame)
    _loop(ip, node, frame, None)


def _loop(ip: Interpreter, node: Loop, frame: Frame, element: Value | None) -> None:
    """Interpret a loop body until its environment is stable."""
    outer_loops = frame.loops
    frame.loops = (*outer_loops, node)
    for _ in range(LOOP_ROUNDS):
        before = dict(frame.env)
        if element is not None and not isinstance(node, ast.While):
            stores.store(ip, node.target, element, node, frame)
        block(ip, node.body, frame)
        if isinstance(node, ast.While):
            frame.statement = node
            expressions.decide(ip, node.test, frame)
        frame.env = join_env([before, frame.env])
        row_loops.carry(ip, node, frame)
        if frame.env == before:
            break
    ahead.carried(ip, node)
    frame.loops = outer_loops
    block(ip, node.orelse, frame)


def _with(ip: Interpreter, node: ast.With, frame: Frame) -> bool:
    for item in node.items:
        value = expressions.evaluate(ip, item.context_expr, frame)
        if item.optional_vars is not None:
            stores.store(ip, item.optional_vars, implied.entered(ip, value, frame), node, frame)
    return block(ip, node.body, frame)


def _try(ip: Interpreter, node: ast.Try, frame: Frame) -> bool:
    start = dict(frame.env)
    left = block(ip, node.body, frame)
    if not left:
        left = block(ip, node.orelse, frame)
    ends = [] if left else [frame.env]
    for handler in node.handlers:
        frame.env = join_env([start, frame.env])
        if handler.name:
            ip.bind(handler.name, HOST, frame)
        if not block(ip, handler.body, frame):
            ends.append(frame.env)
    frame.env = join_env(ends) if ends else start
    return block(ip, node.finalbody, frame) or not ends


_HANDLERS: dict[type[ast.stmt], Callable[[Interpreter, Any, Frame], bool | None]] = {
    ast.Import: _import,
    ast.ImportFrom: _importfrom,
    ast.Assert: _assert,
    ast.FunctionDef: _functiondef,
    ast.AsyncFunctionDef: _functiondef,
    ast.ClassDef: _classdef,
    ast.Assign: _assign,
    ast.AnnAssign: _annassign,
    ast.AugAssign: _augassign,
    ast.Return: _return,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.If: _if,
    ast.Match: _match,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
}
_HANDLERS[getattr(ast, "TryStar", ast.Try)] = _try  # since Python 3.11

__all__ = ["block"]
