"""Where a script adds up gradients over batches by itself; no rule by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._order import exclusive
from ._source import FUNCTIONS, LOOPS, ancestors, bindings, contains, position

if TYPE_CHECKING:
    from ..facts.model import Facts, Step


def accumulated(facts: Facts, step: Step) -> ast.AST | None:
    """The condition (or the inner loop) by which a script steps once for several batches; `None` if it does not.

    An optimizer that steps under a condition which its backward does not stand under adds up gradients where the
    condition counts, or where gradients are not cleared in every iteration.
    """
    for call in step.optimizer_steps:
        for test in deciders(facts, step, call):
            if counts(facts, test) or not any(is_regular(facts, step, item) for item in step.zero_grads):
                return test
    return None


def deciders(facts: Facts, step: Step, call: ast.Call) -> Iterator[ast.expr]:
    """Conditions on which a call depends, while the backward before it does not."""
    child: ast.AST = call
    for item in ancestors(facts, call):
        if isinstance(item, (*LOOPS, *FUNCTIONS)):
            yield from left_before(facts, step, child)
            return
        plain = isinstance(item, ast.If) and not contains(item, step.backwards) and not asks_window(item.test)
        if isinstance(item, ast.If) and plain and not is_either_way(step, item):
            yield item.test
        if isinstance(child, ast.stmt) and isinstance(item, (ast.If, ast.With, ast.Try)):
            yield from left_before(facts, step, child)
        child = item


def left_before(facts: Facts, step: Step, node: ast.AST) -> Iterator[ast.expr]:
    """Conditions between a backward and a later statement of its block that go on with the next batch."""
    if not isinstance(node, ast.stmt):
        return
    seen = False
    for statement in facts.block(node):
        if statement is node:
            return
        seen = seen or contains(statement, step.backwards)
        leaves = isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Continue)
        if seen and leaves and not contains(statement, [*step.backwards, *step.optimizer_steps]):
            assert isinstance(statement, ast.If)
            yield statement.test


def asks_window(test: ast.expr) -> bool:
    """Whether a condition is one on a window of the runtime."""
    return any(isinstance(node, ast.Attribute) and node.attr in ("starts", "ends") for node in ast.walk(test))


def is_either_way(step: Step, item: ast.If) -> bool:
    """Whether the optimizer steps in both branches of an `if`: `scaler.step(opt)` or `opt.step()`."""
    return contains(item.body, step.optimizer_steps) and contains(item.orelse, step.optimizer_steps)


def is_regular(facts: Facts, step: Step, call: ast.Call) -> bool:
    """Whether a call runs in every iteration that has a backward."""
    return next(deciders(facts, step, call), None) is None


def counts(facts: Facts, test: ast.expr) -> bool:
    """Whether a condition takes something modulo, directly or by the name of a flag."""
    todo, seen = [test], {test}
    while todo:
        for node in ast.walk(todo.pop()):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                return True
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                new = [value for value in bindings(facts, node) if value is not None and value not in seen]
                seen.update(new)
                todo.extend(new)
    return False


def later(facts: Facts, one: ast.Call, other: ast.Call) -> bool:
    """Whether a call comes after another one in an iteration that has both."""
    return position(one) > position(other) and not exclusive(facts, one, other)
