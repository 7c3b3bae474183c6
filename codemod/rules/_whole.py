"""Where parameters are opened for changes, and gradients for use; no rule by itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ._source import RUNTIME, contains, enclosing_with, position

if TYPE_CHECKING:
    from ..facts.marks import Opened
    from ..facts.model import Facts


def is_possible(facts: Facts, item: Opened) -> bool:
    """Whether a statement can go into a block: its models have names, and none of them runs in it."""
    return bool(item.models) and not contains(item.statement, running(facts))


def running(facts: Facts) -> list[ast.Call]:
    """Calls that need the parameters as the backend keeps them."""
    found = [forward.call for forward in facts.forwards]
    for step in facts.steps:
        found += [*step.backwards, *step.optimizer_steps, *step.clips]
    return found


def is_open(facts: Facts, node: ast.AST) -> bool:
    """Whether the gradients that a node uses are whole: in a block, or where one goes."""
    if enclosing_with(facts, node, f"{RUNTIME}.whole") is not None:
        return True
    return any(item.grads and is_possible(facts, item) and contains(item.statement, [node]) for item in facts.opened)


def after_step(facts: Facts, item: Opened) -> bool:
    """Whether gradients are used after the optimizer's step of an iteration, which some backends drop them with."""
    return (
        item.grads
        and is_possible(facts, item)
        and any(
            step.loop is not None
            and contains(step.loop, [item.statement])
            and any(position(call) < position(item.statement) for call in step.optimizer_steps)
            and not any(position(call) > position(item.statement) for call in step.optimizer_steps)
            for step in facts.steps
        )
    )
