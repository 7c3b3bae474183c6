"""A scheduler that is told a number of one process: the learning rates drift apart.

plateau.step(val_loss)      # of this process's share of the validation set
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.places import passed
from ..facts.ranks import is_own
from ..facts.values import Role
from ..findings import Finding, finding
from ..rules._source import has_role, method_calls
from . import Kind, check

if TYPE_CHECKING:
    from ..facts.model import Facts


@check("schedules", Kind.BY_HAND)
def schedules(facts: Facts) -> Iterator[Finding]:
    """`scheduler.step(metric)` with a metric that was not reduced."""
    for call, callee in method_calls(facts, "step"):
        if has_role(facts, callee.value, Role.SCHEDULER) and any(is_own(facts.value(item)) for item in passed(call)):
            yield finding("DST253", call)
