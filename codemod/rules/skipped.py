"""Refuse what makes one process skip a layer of which the others hold parts.

    if chosen.any():
        out[chosen] = expert(x[chosen])

A process whose slice has no such rows doesn't gather the parameters of the layer, and the others wait for its part for
ever. With `ddp` each process holds all of them, and a gradient that is missing on some counts as zero there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Span
from ..facts.values import Role
from ..findings import finding
from . import Outcome, rule
from ._source import SHARDED, has_role, setting

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("skipped")
def skipped(facts: Facts, options: Options) -> Iterator[Outcome]:
    """Findings only."""
    backend = setting(facts, options, "backend")
    spans = {item.span for item in facts.findings if item.code == "DST126" and item.level == "warning"}
    for node in facts.nodes if backend in SHARDED and spans else ():
        if not isinstance(node, (ast.If, ast.While, ast.IfExp)):
            continue
        if not any(isinstance(part, ast.expr) and Span.of(part) in spans for part in ast.walk(node.test)):
            continue
        branches = node.body if isinstance(node.body, list) else [node.body]
        inner = [part for branch in branches for part in ast.walk(branch)]
        if any(isinstance(part, ast.Call) and has_role(facts, part.func, Role.MODEL) for part in inner):
            message = f"a process that skips this layer gives no part of its parameters, and --backend {backend} waits"
            hint = "use --backend ddp, or run the layer on all rows and multiply by the mask"
            yield finding("DST903", node.test, message, hint)
