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

from ..dataclass import dataclass
from ..facts.values import Role
from ..findings import Finding, finding
from ..rules._order import exclusive
from ..rules._source import has_role, position
from . import Kind, check
from ._gradients import CLIPS

if TYPE_CHECKING:
    from ..facts.model import Facts

DEPTH = 3


@check("unscaled", Kind.BY_HAND, Kind.PLAIN)
def unscaled(facts: Facts) -> Iterator[Finding]:
    """Clips between a scaled backward and the scaler's step, with no `unscale_` before them."""
    for step in facts.steps:
        done = list(events(facts, step.body))
        nodes = [item.node for item in done]
        if not any(is_method(item.facts, item.node, "step") for item in done):
            continue
        backwards = [item for item in done if item.node in step.backwards]
        scaled = [item for item in backwards if any(is_scale(item.facts, node) for node in ast.walk(item.node))]
        if len(scaled) < len(step.backwards) or not scaled:
            scaled = [item for item in done if is_scale(item.facts, item.node)]
        for index, item in enumerate(done):
            if item.facts.names.qualified(item.node.func) not in CLIPS and item.node not in step.clips:
                continue
            before = [other for other in scaled if nodes.index(other.node) < index]
            later = any(not exclusive(facts, item.site, other.site) for other in before)
            known = any(is_method(other.facts, other.node, "unscale_") for other in done[:index])
            if later and not known and facts.holds(item.site):
                yield finding("DST451", item.node if facts.holds(item.node) else item.site)


@dataclass(frozen=True)
class Event:
    """A call of a step, there or in a function that the step calls at a place."""

    facts: Facts
    node: ast.Call
    site: ast.Call


def events(facts: Facts, body: list[ast.stmt], site: ast.Call | None = None, depth: int = DEPTH) -> Iterator[Event]:
    """The calls of a step in source order, with those of the program's functions where these are called."""
    inside = {node: None for item in body for node in ast.walk(item) if isinstance(node, ast.Call)}
    for node in sorted(inside, key=position):
        yield Event(facts, node, site or node)
        for ref in facts.value(node.func).defs if depth else ():
            home = next((file for file in facts.program if file.holds(ref.node)), None)
            if home is not None and isinstance(ref.node, ast.FunctionDef) and not is_step(home, ref.node):
                yield from events(home, ref.node.body, site or node, depth - 1)


def is_step(facts: Facts, function: ast.FunctionDef) -> bool:
    """Whether a function is a step by itself, looked at there."""
    return any(facts.enclosing(call, ast.FunctionDef) is function for step in facts.steps for call in step.backwards)


def is_scale(facts: Facts, node: ast.AST) -> bool:
    """Whether a node multiplies a loss by the scale."""
    return is_method(facts, node, "scale")


def is_method(facts: Facts, node: ast.AST, name: str) -> bool:
    """Whether a node calls a method of a scaler."""
    method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
    return method and has_role(facts, node.func.value, Role.SCALER)  # type: ignore[attr-defined]
