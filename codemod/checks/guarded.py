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
from ..rules._source import LOOPS, ancestors, position
from . import Kind, check
from ._collectives import around, takes_part
from ._collectives import of_program as collectives_of
from ._guards import of_program as guards_of

if TYPE_CHECKING:
    from ..facts.model import Facts

LEAVES = (ast.Break, ast.Return)
LEFT = "Only some processes leave this loop, and those that stay wait for them for ever."


@check("guarded", Kind.BY_HAND, Kind.CONVERTED)
def guarded(facts: Facts) -> Iterator[Finding]:
    """Collective calls that not all processes reach."""
    if collectives_of(facts).apart:
        return
    collectives, guards = collectives_of(facts), guards_of(facts)
    told: set[ast.AST] = set()
    for node in sorted((node for node in facts.nodes if isinstance(node, (ast.Call, *LEAVES))), key=position):
        if not isinstance(node, ast.Call):
            found = list(leaving(facts, node))
            told.update(item for item in ancestors(facts, node) if found and isinstance(item, ast.If))
            yield from found
            continue
        name = collectives.of(facts, node)
        test = guards.test_of(facts, node) if name else None
        if test is None or in_both(facts, node, test):
            continue
        if test in told and not any(item is test for item in ancestors(facts, node)):
            continue  # what follows where some left
        twins = collectives.twins(facts, node) if collectives.is_direct(node) else []
        if any(guards.test_of(facts, twin) is not None for twin in twins):
            continue
        waits = name if collectives.is_direct(node) else f"{name}, which is called in here,"
        message = f"Only some processes come here, and {waits} waits for all of them."
        yield finding("DST651", node, message)


def in_both(facts: Facts, call: ast.Call, test: ast.AST) -> bool:
    """Whether the processes that take the other branch of a condition call the same there."""
    collectives = collectives_of(facts)
    branches = [test.body, test.orelse] if isinstance(test, ast.If) else []
    name = collectives.of(facts, call)
    met = [
        any(
            isinstance(node, ast.Call) and collectives.of(facts, node) == name
            for item in branch
            for node in ast.walk(item)
        )
        for branch in branches
    ]
    return len(met) > 1 and all(met)


def leaving(facts: Facts, node: ast.AST) -> Iterator[Finding]:
    """Some processes leave a loop in which all of them meet."""
    test = guards_of(facts).test_of(facts, node)
    loops = [item for item in around(facts, node) if isinstance(item, LOOPS)]
    loops = loops[:1] if isinstance(node, ast.Break) else loops
    for loop in loops:
        inside = test is not None and any(item is loop for item in ancestors(facts, test))
        if inside and any(takes_part(facts, inner) for inner in ast.walk(loop)):
            yield finding("DST651", node, LEFT)
            return
