"""A loader whose batches are trained on whole by every process (pytorch/pytorch#31771, huggingface/datasets#5360).

    loader = DataLoader(train_set, batch_size=64, shuffle=True)     # sampler=DistributedSampler(train_set)

A loader that only serves evaluation is left alone: each process may evaluate on all of it. So is one whose sampler or
data set asks for the number of the process, or can't be looked into.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.local import deep_sources
from ..facts.places import passed
from ..facts.values import union
from ..findings import Finding, finding
from ..rules._source import ancestors, enclosing_with
from . import Kind, check
from ._gradients import NO_GRADIENT

if TYPE_CHECKING:
    from ..facts.model import Facts, Step


@check("unsharded", Kind.BY_HAND)
def unsharded(facts: Facts) -> Iterator[Finding]:
    """Loaders that feed a training step and give every process the same samples."""
    for item in facts.loaders:
        if item.feeds_model and not item.apart and not item.unclear and trained_on(facts, item.call):
            yield finding("DST151", item.call)


def trained_on(facts: Facts, loader: object) -> bool:
    """Whether batches of a loader go into the forward of a training step."""
    for file in facts.program:
        for step in file.steps:
            for forward in step.forwards if step.backwards else ():
                fed = any(loader in deep_sources(file.value(item)) for item in passed(forward.call))
                if fed and not validates(file, step, forward.call, loader):
                    return True
    return False


def validates(facts: Facts, step: Step, call: ast.Call, loader: object) -> bool:
    """Whether a forward is of an evaluation inside a training step: a loop over a loader that nothing is trained in."""
    if enclosing_with(facts, call, *NO_GRADIENT) is not None:
        return True
    for loop in ancestors(facts, call):
        if loop is step.loop:
            return False
        if isinstance(loop, (ast.For, ast.AsyncFor)) and loader in sources(facts, loop.target):
            return not any(backward in ast.walk(loop) for backward in step.backwards)
    return False


def sources(facts: Facts, target: ast.expr) -> frozenset[ast.AST]:
    """Where what a loop goes over comes from."""
    return union(deep_sources(facts.value(part)) for part in ast.walk(target) if isinstance(part, ast.expr))
