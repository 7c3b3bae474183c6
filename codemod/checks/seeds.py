"""A random split that every process draws for itself (Lightning-AI/pytorch-lightning#9851).

train_set, val_set = random_split(data, [900, 100])     # no seed anywhere: another split on each process

In a converted script all processes hold the same streams of random numbers, and slice what is drawn of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.places import passed
from ..facts.ranks import Mark
from ..findings import Finding, finding
from ..rules._source import calls, keyword_value
from . import Kind, check

if TYPE_CHECKING:
    from ..facts.model import Facts

SEEDS = ("manual_seed", "seed_everything", "set_seed", "fork_rng", "set_rng_state", "seed_all")
SEEDING = ("torch.manual_seed", "torch.random.manual_seed")
OTHERS = ("torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "random.seed", "numpy.random.seed")
APART = "Each process is seeded by its number, so each draws another split: what one validates on another one trains."


@check("seeds", Kind.BY_HAND)
def seeds(facts: Facts) -> Iterator[Finding]:
    """`random_split` in a program that seeds nothing."""
    apart = seeded_apart(facts)
    for file in facts.program if not apart else ():
        for node in file.nodes:
            name = getattr(node, "attr", None) or getattr(node, "id", None)
            if isinstance(node, (ast.Attribute, ast.Name)) and (name in SEEDS or "seed" in str(name).lower()):
                return
    for call in calls(facts, "torch.utils.data.random_split"):
        if keyword_value(call, "generator") is None and len(call.args) < 3:
            yield finding("DST153", call, APART if apart else "")


@check("drawn", Kind.CONVERTED)
def drawn(facts: Facts) -> Iterator[Finding]:
    """Seeds by the number of the process in a converted script, whose streams are the same on all."""
    for call in calls(facts, *SEEDING, *OTHERS):
        if any(Mark.RANK in facts.value(item).ranks for item in passed(call)):
            yield finding("DST155", call)


def seeded_apart(facts: Facts) -> bool:
    """Whether the numbers of torch are seeded by the number of the process, wherever they are."""
    seeding = [(file, call) for file in facts.program for call in calls(file, *SEEDING)]
    return bool(seeding) and all(
        any(Mark.RANK in file.value(item).ranks for item in passed(call)) for file, call in seeding
    )
