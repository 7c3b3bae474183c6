"""A loader whose batches are trained on whole by every process (pytorch/pytorch#31771, huggingface/datasets#5360).

    loader = DataLoader(train_set, batch_size=64, shuffle=True)     # sampler=DistributedSampler(train_set)

A loader that only serves evaluation is left alone: each process may evaluate on all of it. So is one whose sampler or
data set asks for the number of the process, or can't be looked into.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.local import deep_sources
from ..facts.places import passed
from ..findings import Finding, finding
from . import Kind, check

if TYPE_CHECKING:
    from ..facts.model import Facts


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
                if any(loader in deep_sources(file.value(item)) for item in passed(forward.call)):
                    return True
    return False
