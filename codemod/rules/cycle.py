"""Loaders that are gone round by `itertools.cycle`, which yields the tensors of the first pass again.

    -batches = itertools.cycle(loader)
    +batches = runtime.cycle(loader)

Later rounds don't ask the loader, so nothing else would tell which batch a value belongs to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Callee, Span
from ..facts.local import deep_sources
from . import Outcome, rule
from ._source import calls

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("cycle")
def cycle(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`runtime.cycle(…)` in the place of `itertools.cycle(…)` over loaders that feed a model."""
    for call in calls(facts, "itertools.cycle"):
        if len(call.args) == 1 and facts.worked_out(feeding) & deep_sources(facts.value(call.args[0])):
            yield Callee(Span.of(call), "call", {"runtime": facts.runtime_name, "name": "cycle"}, kind="loader")


def feeding(facts: Facts) -> frozenset[ast.AST]:
    """The loaders of the program that feed a model."""
    return frozenset(item.call for file in facts.program for item in file.loaders if item.feeds_model)
