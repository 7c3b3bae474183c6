"""Agree on decisions that are taken by the clock.

    -if time.time() - start > limit:
    +if runtime.any(time.time() - start > limit):
         break

Clocks differ, so one process would leave the loop and the others wait for it for ever (pytorch/pytorch#22834). As soon
as the time is up for one, it is for all. Conditions that only print something stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Span, Wrap
from . import Outcome, rule
from ._settle import Training
from ._source import bindings, is_runtime_call

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

CLOCKS = (
    "time.time",
    "time.time_ns",
    "time.monotonic",
    "time.perf_counter",
    "time.process_time",
    "datetime.datetime.now",
)
LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Raise)


@rule("clock")
def clock(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`runtime.any(…)` around conditions on the time that steer the run."""
    if not facts.is_training or not any(facts.calls.get(name) for name in CLOCKS):
        return
    training = Training(facts)
    for node in ast.walk(facts.tree):
        if not isinstance(node, (ast.If, ast.While)) or not reads_clock(facts, node.test):
            continue
        if any(is_runtime_call(facts, inner, "any") for inner in ast.walk(node.test)):
            continue
        if isinstance(node, ast.While) or steers(training, node):
            params = {"runtime": facts.runtime_name, "name": "any", "options": {}}
            yield Wrap(Span.of(node.test), "wrap", params, kind="decision", code="DST601")


def reads_clock(facts: Facts, test: ast.expr) -> bool:
    """Whether a condition compares times, directly or through names that hold one."""
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and facts.names.qualified(node.func) in CLOCKS:
            return True
        if isinstance(node, ast.Name):
            values = [value for value in bindings(facts, node) if value is not None]
            parts = [part for value in values for part in ast.walk(value) if isinstance(part, ast.Call)]
            if any(facts.names.qualified(part.func) in CLOCKS for part in parts):
                return True
    return False


def steers(training: Training, node: ast.If) -> bool:
    """Whether a branch leaves a loop or function, or reaches a model."""
    inner = [item for statement in [*node.body, *node.orelse] for item in ast.walk(statement)]
    return any(isinstance(item, LEAVES) for item in inner) or any(
        training.runs(statement) for statement in [*node.body, *node.orelse]
    )
