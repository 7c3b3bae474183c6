"""A `DistributedSampler` that shuffles and is never told the epoch (pytorch/pytorch#31771, pytorch/pytorch#31232).

sampler = DistributedSampler(train_set)         # shuffle=True
for epoch in range(10):
    sampler.set_epoch(epoch)                    # without it, every epoch has the order of the first
    for x, y in loader: …
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.places import passed
from ..facts.values import EMPTY
from ..findings import Finding, finding
from ..rules._source import FUNCTIONS, LOOPS, ancestors, calls, keyword_value
from . import Kind, check
from ._guards import Guards
from ._guards import of_program as guards_of

if TYPE_CHECKING:
    from ..facts.model import Facts

SAMPLERS = ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler")
SHUFFLE = 3


@check("epochs", Kind.BY_HAND)
def epochs(facts: Facts) -> Iterator[Finding]:
    """Samplers of loaders that are trained on for several epochs."""
    guards = guards_of(facts)
    told = [
        file.value(node.func.value)
        for file in facts.program
        for node in file.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "set_epoch"
        if tells(guards, file, node)
    ]
    for call in calls(facts, *SAMPLERS):
        shuffle = keyword_value(call, "shuffle") or (call.args[SHUFFLE] if len(call.args) > SHUFFLE else None)
        off = isinstance(shuffle, ast.Constant) and shuffle.value is False
        objects = facts.value(call).objs
        if off or any(not value.objs or value.objs & objects for value in told):
            continue
        loaders = [item.call for file in facts.program for item in file.loaders if uses(file, item.call, objects)]
        if any(trained_again(facts, loader) for loader in loaders):
            yield finding("DST152", call)


def tells(guards: Guards, facts: Facts, call: ast.Call) -> bool:
    """Whether a call tells one epoch after the other, as far as anybody sees: no constant, and not once only."""
    constant = passed(call) and all(isinstance(item, ast.Constant) for item in passed(call))
    return not constant and (repeated(guards, facts, call, frozenset()) or not is_reached(guards, facts, call))


def is_reached(guards: Guards, facts: Facts, node: ast.AST) -> bool:
    """Whether all ways are known by which the program comes to a node."""
    function = facts.enclosing(node, *FUNCTIONS)
    return function is None or bool(guards.sites(function))


def uses(facts: Facts, loader: ast.Call, sampler: frozenset[int]) -> bool:
    """Whether a loader was given a sampler."""
    given = keyword_value(loader, "sampler")
    return given is not None and bool((facts.value(given) or EMPTY).objs & sampler)


def trained_again(facts: Facts, loader: ast.Call) -> bool:
    """Whether a loop that trains goes over a loader more than once."""
    guards = guards_of(facts)
    for file in facts.program:
        for step in file.steps:
            loop = step.loop
            if isinstance(loop, (ast.For, ast.AsyncFor)) and step.backwards:
                batches = file.value(loop.target).sources | file.value(loop.iter).sources
                inner = frozenset().union(*(file.value(part).sources for part in ast.walk(loop.target)
                                            if isinstance(part, ast.expr)))  # fmt: skip
                if loader in batches | inner and repeated(guards, file, loop, frozenset()):
                    return True
    return False


def once(facts: Facts, loop: ast.AST) -> bool:
    """Whether a loop is `for epoch in range(1)`."""
    call = loop.iter if isinstance(loop, ast.For) else None
    if not isinstance(call, ast.Call) or facts.names.qualified(call.func) != "builtins.range":
        return False
    return len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 1


def repeated(guards: Guards, facts: Facts, node: ast.AST, seen: frozenset[ast.AST]) -> bool:
    """Whether a node runs in a loop, of its function or of a caller."""
    for item in ancestors(facts, node):
        if isinstance(item, LOOPS) and not once(facts, item):
            return True
        if isinstance(item, FUNCTIONS):
            if item in seen:
                return False
            return any(repeated(guards, file, call, seen | {item}) for file, call in guards.sites(item))
    return False
