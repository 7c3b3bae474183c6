"""Agree on decisions that are taken by the clock.

    -if time.time() - start > limit:
    +if runtime.any(time.time() - start > limit):
         break

Clocks differ, so one process would leave the loop and the others wait for it for ever (pytorch/pytorch#22834). As soon
as the time is up for one, it is for all. Conditions that only print something stay as they are.

A file that decides over a save, a load or a training step is a clock of its own: a process that asks later finds what
another one has written, or has a disk without it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Span, Wrap
from . import Outcome, rule
from ._clocks import of_program
from ._order import asks_for_files
from ._settle import Training
from ._source import FUNCTIONS, LOOPS, ancestors, is_runtime_call
from ._turns import to_agree_on

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Raise)


@rule("clock")
def clock(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`runtime.any(…)` around conditions on the time, on signals, and on files that stop a training loop."""
    if not any(file.is_training for file in facts.program):
        return
    training, apart = facts.worked_out(Training), of_program(facts)
    files = {id(node) for node in to_agree_on(facts, training)}
    for node in facts.nodes:
        if not isinstance(node, (ast.If, ast.While)):
            continue
        if any(is_runtime_call(facts, inner, "any") for inner in ast.walk(node.test)):
            continue
        by_clock = apart.used and apart.differs(facts, node.test)
        steered = by_clock and (isinstance(node, ast.While) or steers(training, node))
        if (
            steered
            or id(node) in files
            or (isinstance(node, ast.If) and asks_for_files(facts, node.test) and stops(facts, training, node))
        ):
            params = {"runtime": facts.runtime_name, "name": "any", "options": {}}
            yield Wrap(Span.of(node.test), "wrap", params, kind="decision", code="DST601")


def steers(training: Training, node: ast.If) -> bool:
    """Whether a branch leaves a loop or function, or reaches a model."""
    inner = [item for statement in [*node.body, *node.orelse] for item in ast.walk(statement)]
    return any(isinstance(item, LEAVES) for item in inner) or any(
        training.runs(statement) for statement in [*node.body, *node.orelse]
    )


def stops(facts: Facts, training: Training, node: ast.If) -> bool:
    """Whether a branch leaves a loop that trains."""
    for item in ancestors(facts, node):
        if isinstance(item, FUNCTIONS):
            return False
        if isinstance(item, LOOPS):
            return training.runs(item) and any(isinstance(part, (ast.Break, ast.Return)) for part in ast.walk(node))
    return False
