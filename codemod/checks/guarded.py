"""A collective under a condition on the process: those that call it wait for the others for ever.

    if dist.get_rank() == 0:
        dist.all_reduce(total)                              # the others never come
    if runtime.is_main():
        runtime.save(runtime.state_dict(model), "m.pt")     # saving gathers, on every process

A pair of the same collective under opposite conditions, as of barriers around a download, is complete, and one over a
group of its own is for those that are in it (pytorch/pytorch#54059, huggingface/accelerate#2000).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Finding, finding
from ..rules._source import position
from . import Kind, check
from ._collectives import of_program as collectives_of
from ._guards import of_program as guards_of

if TYPE_CHECKING:
    from ..facts.model import Facts


@check("guarded", Kind.BY_HAND, Kind.CONVERTED)
def guarded(facts: Facts) -> Iterator[Finding]:
    """Collective calls that not all processes reach."""
    if collectives_of(facts).apart:
        return
    collectives, guards = collectives_of(facts), guards_of(facts)
    calls = sorted((node for node in facts.nodes if isinstance(node, ast.Call)), key=position)
    for call in calls:
        name = collectives.of(facts, call)
        if not name or guards.test_of(facts, call) is None:
            continue
        twins = collectives.twins(facts, call) if collectives.is_direct(call) else []
        if any(guards.test_of(facts, twin) is not None for twin in twins):
            continue
        waits = name if collectives.is_direct(call) else f"{name}, which is called in here,"
        message = f"Only some processes come here, and {waits} waits for all of them."
        yield finding("DST651", call, message)
