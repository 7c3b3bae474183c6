"""Random streams that a script does not seed start alike in both runs.

On the other ranks of the rewritten script they do not: that ranks draw alike is what its conversion has to see to.
"""

from __future__ import annotations

import functools
import itertools
import random
from typing import Any

from .settings import Facts, Settings

SEED = 0


def fix_python(settings: Settings, facts: Facts) -> None:
    """Python's stream."""
    if settings.lead:
        random.seed(SEED)
    watch(random, "seed", facts)


def fix_torch(torch: Any, settings: Settings, facts: Facts) -> None:
    """The streams of torch, on all devices: without a seed they start anywhere."""
    if settings.lead:
        torch.manual_seed(SEED)
    watch(torch, "manual_seed", facts)


def fix_numpy(numpy: Any, settings: Settings, facts: Facts) -> None:
    """NumPy's stream, and those of generators that are made without a seed."""
    watch(numpy.random, "seed", facts)
    if not settings.lead:
        return
    getattr(numpy.random.seed, "__wrapped__", numpy.random.seed)(SEED)
    numbers, make = itertools.count(), numpy.random.default_rng

    @functools.wraps(make)
    def default_rng(seed: Any = None) -> Any:
        return make([SEED, next(numbers)] if seed is None else seed)

    numpy.random.default_rng = default_rng


def watch(module: Any, name: str, facts: Facts) -> None:
    """Note that a script seeds."""
    seed = getattr(module, name)

    @functools.wraps(seed)
    def seeded(*args: Any, **options: Any) -> Any:
        facts.note("seeds")
        return seed(*args, **options)

    setattr(module, name, seeded)
