"""A scheduler that is told a number of one process: the learning rates drift apart.

plateau.step(val_loss)      # of this process's share of the validation set
group["lr"] = 0.1 * loss    # likewise
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.places import passed
from ..facts.ranks import is_own
from ..facts.values import Role
from ..findings import Finding, finding
from ..rules._schedules import targets
from ..rules._source import has_role, method_calls
from . import Kind, check
from ._guards import conditions

if TYPE_CHECKING:
    from ..facts.model import Facts


@check("schedules", Kind.BY_HAND)
def schedules(facts: Facts) -> Iterator[Finding]:
    """`scheduler.step(metric)` with a metric that was not reduced."""
    for call, callee in method_calls(facts, "step"):
        if has_role(facts, callee.value, Role.SCHEDULER) and any(is_own(facts.value(item)) for item in passed(call)):
            yield finding("DST253", call)
    for node in facts.nodes:
        if not isinstance(node, (ast.Assign, ast.AugAssign)) or not any(map(is_rate, targets(node))):
            continue
        if is_own(facts.value(node.value)) or any(is_own(facts.value(test)) for test in conditions(facts, node)):
            yield finding("DST253", node)


def is_rate(target: ast.expr) -> bool:
    """Whether an expression is the learning rate in a group of an optimizer's parameters."""
    return isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and target.slice.value == "lr"
