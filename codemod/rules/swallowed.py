"""Tell of exceptions that are swallowed around a training step.

    try:
        train_step(batch)
    except RuntimeError:    # out of memory, say, on one process only
        continue

The process that skips the step, or ends quietly, leaves the others waiting in it until the time limit of collectives.
What interrupts all processes alike (Ctrl-C), or ends an iterator, is let be.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import finding
from . import Outcome, rule
from ._settle import Training
from ._source import is_exit

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

ALIKE = ("KeyboardInterrupt", "StopIteration", "SystemExit", "GeneratorExit", "ImportError", "ModuleNotFoundError")


@rule("swallowed")
def swallowed(facts: Facts, options: Options) -> Iterator[Outcome]:
    """A finding for each handler after which a process goes on without a step that the others take."""
    training: Training | None = None
    for node in facts.nodes:
        if not isinstance(node, ast.Try):
            continue
        handlers = [item for item in node.handlers if not is_alike(item) and not raises(facts, item)]
        if not handlers:
            continue
        training = training or facts.worked_out(Training)
        if any(training.runs(statement) for statement in node.body):
            yield from (finding("DST603", item) for item in handlers)


def is_alike(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches only what all processes meet."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = [item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "") for item in caught]
    return all(name in ALIKE for name in names)


def raises(facts: Facts, handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends with an exception or with the process."""
    last = handler.body[-1]
    call = last.value if isinstance(last, ast.Expr) else None
    return isinstance(last, ast.Raise) or is_exit(facts, call)
