"""Which scheduler steps go with every optimizer step; no rule by itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ._order import conditions
from ._settle import Training
from ._source import LOOPS, ancestors, contains

if TYPE_CHECKING:
    from ..facts.model import Facts, Step


def per_step_schedulers(facts: Facts, step: Step) -> list[ast.Call]:
    """Scheduler steps of a training step that no condition of their own makes rarer (`if i % 100 == 0:`)."""
    training = facts.worked_out(Training)
    return [call for call in step.scheduler_steps if not is_rarer(facts, training, step, call)]


def is_rarer(facts: Facts, training: Training, step: Step, call: ast.Call) -> bool:
    """Whether a call stands under a count, or beside an evaluation, without an optimizer step."""
    for item in ancestors(facts, call):
        if isinstance(item, LOOPS) and not contains(item, step.optimizer_steps) and training.runs(item):
            return True
    for item in conditions(facts, call):
        if not isinstance(item, ast.If) or contains(item, step.optimizer_steps):
            continue
        counts = any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) for node in ast.walk(item.test))
        if counts or any(training.runs(statement) for statement in item.body):
            return True
    return False
