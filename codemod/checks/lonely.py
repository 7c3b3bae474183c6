"""A step, or a load, that some processes make only: from there on they go apart.

    if rank == 0:
        scheduler.step()                                        # the others keep their learning rate
        model.module.load_state_dict(torch.load("model.pt"))    # wrapping sent the weights before that

A wrapper sends the weights of the first process once, when it is made; a state that is loaded before that may be loaded
by one, and one that is sent afterwards too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.ranks import is_own
from ..facts.values import Role
from ..findings import Finding, finding
from ..rules._source import method_calls
from . import Kind, check
from ._guards import conditions
from ._guards import of_program as guards_of
from ._weights import weights_sent

if TYPE_CHECKING:
    from ..facts.model import Facts

DECIDED = "Each process decides this by a number of its own: some step and some don't, and go apart from there on."
STEPPED = (Role.OPTIMIZER, Role.SCHEDULER)


@check("lonely", Kind.BY_HAND, Kind.CONVERTED)
def lonely(facts: Facts) -> Iterator[Finding]:
    """`optimizer.step()`, `scheduler.step()` and `load_state_dict` under a condition on the process."""
    for call, callee in method_calls(facts, "step", "load_state_dict"):
        held = facts.value(callee.value)
        steps = any(held.has(role) for role in STEPPED)
        wrapper = callee.value.value if isinstance(callee.value, ast.Attribute) else callee.value
        model = callee.attr == "load_state_dict" and (held.wrapped or facts.value(wrapper).wrapped)
        if callee.attr == "load_state_dict" and facts.worked_out(weights_sent):
            continue
        test = guards_of(facts).test_of(facts, call) if steps or model else None
        if test is not None and not in_both(call, test):
            yield finding("DST257", call)
        elif steps and callee.attr == "step" and any(is_own(facts.value(item)) for item in conditions(facts, call)):
            yield finding("DST257", call, DECIDED, "decide on a reduced value, or on the norm of the gradients")


def in_both(call: ast.Call, test: ast.AST) -> bool:
    """Whether the processes that take the other branch do the like there."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    branches = [test.body, test.orelse] if isinstance(test, ast.If) else []
    met = [
        any(isinstance(node, ast.Attribute) and node.attr == name for item in branch for node in ast.walk(item))
        for branch in branches
    ]
    return len(met) > 1 and all(met)
