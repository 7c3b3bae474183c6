"""Clipping of gradients that are still multiplied by the loss scale (pytorch/examples#1196).

scaler.scale(loss).backward()
scaler.unscale_(optimizer)                  # without it, the norm is 65536 times too large
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.values import Role
from ..findings import Finding, finding
from ..rules._order import exclusive
from ..rules._source import has_role, position
from . import Kind, check

if TYPE_CHECKING:
    from ..facts.model import Facts


@check("unscaled", Kind.BY_HAND, Kind.PLAIN)
def unscaled(facts: Facts) -> Iterator[Finding]:
    """Clips between a scaled backward and the scaler's step, with no `unscale_` before them."""
    for step in facts.steps:
        nodes = [node for statement in step.body for node in ast.walk(statement) if isinstance(node, ast.Call)]
        if not any(is_method(facts, node, "step") for node in nodes):
            continue
        scaled = [call for call in step.backwards if any(is_method(facts, node, "scale") for node in ast.walk(call))]
        if len(scaled) < len(step.backwards) or not scaled:
            scaled = [node for node in nodes if is_method(facts, node, "scale")]
        unscales = [position(node) for node in nodes if is_method(facts, node, "unscale_")]
        for clip in step.clips:
            later = any(position(clip) > position(call) and not exclusive(facts, clip, call) for call in scaled)
            if later and facts.holds(clip) and not any(place < position(clip) for place in unscales):
                yield finding("DST451", clip)


def is_method(facts: Facts, node: ast.AST, name: str) -> bool:
    """Whether a node calls a method of a scaler."""
    method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
    return method and has_role(facts, node.func.value, Role.SCALER)  # type: ignore[attr-defined]
