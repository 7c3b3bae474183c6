"""Learning rates that follow a count of batches, or the loss of one, while steps are made once per window.

    scheduler.step(epoch + i / len(loader))     # i counts batches; with a batch twice as large it would count half

No rule by itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.places import passed
from ..findings import Finding, finding
from ._source import contains, dotted, is_runtime_call

if TYPE_CHECKING:
    from ..facts.model import Facts, Step


def schedules(facts: Facts, step: Step, schedulers: list[ast.Call], counted: list[ast.stmt]) -> Iterator[Finding]:
    """Refuse what a window would set by its last batch: arguments of schedulers, and rates that are set by hand."""
    if step.loop is None:
        return
    counters = {dotted(item.target) for item in counted if isinstance(item, ast.AugAssign)}
    for call in schedulers:
        given = passed(call)
        for item in given[1:] if is_runtime_call(facts, call, "step") else given:
            if follows(facts, step, item, counters, losses=True):
                yield finding("DST218", call)
                break
    for statement in step.body:
        for node in ast.walk(statement):
            if any(follows(facts, step, item, counters, losses=False) for item in set_by(facts, node)):
                yield finding("DST218", node)


def set_by(facts: Facts, node: ast.AST) -> list[ast.expr]:
    """What a statement sets a rate to, or a call gives to a function of the program that sets one."""
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        return [node.value] if any(map(is_rate, targets(node))) else []
    if not isinstance(node, ast.Call):
        return []
    inner = [part for item in facts.value(node.func).defs for part in ast.walk(item.node)]
    sets = any(isinstance(part, (ast.Assign, ast.AugAssign)) and any(map(is_rate, targets(part))) for part in inner)
    steps = any(isinstance(part, ast.Attribute) and part.attr in ("backward", "step") for part in inner)
    return passed(node) if sets and not steps else []


def targets(node: ast.Assign | ast.AugAssign) -> list[ast.expr]:
    """What an assignment sets."""
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def is_rate(target: ast.expr) -> bool:
    """Whether a target is a setting of an optimizer's group: `group["lr"]`."""
    return (
        isinstance(target, ast.Subscript)
        and isinstance(target.slice, ast.Constant)
        and target.slice.value in ("lr", "momentum", "weight_decay", "betas")
    )


def follows(facts: Facts, step: Step, value: ast.expr, counters: set[str | None], losses: bool) -> bool:
    """Whether a value is made of a count of the loop's batches, or with `losses` of what one batch gave."""
    todo: list[ast.expr] = [value]
    seen: set[str | None] = {*counters, None}
    while todo:
        expression = todo.pop()
        if losses and contains(expression, [item.call for item in step.forwards]):
            return True
        for node in ast.walk(expression):
            name = dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
            if name in seen:
                continue
            seen.add(name)
            if name in indices(facts, step):
                return True
            for item in changes(step, name):
                if isinstance(item, ast.AugAssign):
                    return True
                todo.append(item.value)
    return False


def indices(facts: Facts, step: Step) -> set[str | None]:
    """The names by which a loop counts: of `enumerate`, or of a range."""
    loop = step.loop
    if not (isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call)):
        return set()
    called = facts.names.qualified(loop.iter.func)
    if called == "builtins.enumerate" and isinstance(loop.target, ast.Tuple):
        return {dotted(loop.target.elts[0])}
    ranges = called == "builtins.range" or any(
        isinstance(node, ast.Call) and facts.names.qualified(node.func) == "builtins.range"
        for node in ast.walk(loop.iter)
    )
    return {dotted(loop.target)} if ranges else set()


def changes(step: Step, name: str | None) -> Iterator[ast.Assign | ast.AugAssign]:
    """What sets a name in the loop."""
    for statement in step.body:
        for node in ast.walk(statement):
            if isinstance(node, (ast.Assign, ast.AugAssign)) and name in map(dotted, targets(node)):
                yield node
