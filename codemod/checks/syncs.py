"""`no_sync()` that leaves the forward out: gradients are sent all the same (accelerate's guide to synchronisation).

loss = criterion(model(x), y)
with model.no_sync():
    loss.backward()         # the forward of the wrapper decided already
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Finding, finding
from . import Kind, check

if TYPE_CHECKING:
    from ..facts.model import Facts


@check("syncs", Kind.BY_HAND)
def syncs(facts: Facts) -> Iterator[Finding]:
    """Blocks of `no_sync()` that hold a backward and no forward of the step."""
    for step in facts.steps:
        backwards, forwards = {id(call) for call in step.backwards}, {id(item.call) for item in step.forwards}
        for block in [node for statement in step.body for node in ast.walk(statement) if isinstance(node, ast.With)]:
            item = next((entry.context_expr for entry in block.items if is_no_sync(facts, entry.context_expr)), None)
            inside = {id(node) for node in ast.walk(block)}
            if item is not None and inside & backwards and forwards and not inside & forwards:
                yield finding("DST254", item)


def is_no_sync(facts: Facts, node: ast.expr) -> bool:
    """Whether an expression is `model.no_sync()` of a wrapped model."""
    method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "no_sync"
    return method and facts.value(node.func.value).wrapped  # type: ignore[attr-defined]
