"""A training forward past the wrapper: gradients are not shared (jingyaogong/minimind#853, kohya-ss/sd-scripts#989).

loss = criterion(model.module(x), y)        # model(x)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Finding, finding
from . import Kind, check

if TYPE_CHECKING:
    from ..facts.model import Facts


@check("wrapped", Kind.BY_HAND)
def wrapped(facts: Facts) -> Iterator[Finding]:
    """Forwards of `.module` whose result reaches a backward."""
    for step in facts.steps:
        if not step.backwards:
            continue
        first = min((call.lineno, call.col_offset) for call in step.backwards)
        for forward in step.forwards:
            callee = forward.call.func
            holder = callee.value if isinstance(callee, ast.Attribute) and forward.method else callee
            inner = isinstance(holder, ast.Attribute) and holder.attr == "module" and facts.value(holder.value).wrapped
            before = (forward.call.lineno, forward.call.col_offset) < first
            if inner and before and not without_gradient(facts, forward.call):
                yield finding("DST352", forward.call)


def without_gradient(facts: Facts, node: ast.AST) -> bool:
    """Whether a node runs under `torch.no_grad()`."""
    found = facts.parents.get(node)
    while found is not None:
        for item in found.items if isinstance(found, (ast.With, ast.AsyncWith)) else ():
            call = item.context_expr
            name = facts.names.qualified(call.func if isinstance(call, ast.Call) else call)
            if name in ("torch.no_grad", "torch.inference_mode"):
                return True
        found = facts.parents.get(found)
    return False
