"""A training forward past the wrapper: gradients are not shared (jingyaogong/minimind#853, kohya-ss/sd-scripts#989).

loss = criterion(model.module(x), y)        # model(x)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Finding, finding
from ..rules._source import enclosing_with, position
from . import Kind, check
from ._gradients import NO_GRADIENT

if TYPE_CHECKING:
    from ..facts.model import Facts


@check("wrapped", Kind.BY_HAND)
def wrapped(facts: Facts) -> Iterator[Finding]:
    """Forwards of `.module` whose result reaches a backward."""
    for step in facts.steps:
        if not step.backwards:
            continue
        first = min(map(position, step.backwards))
        for forward in step.forwards:
            callee = forward.call.func
            holder = callee.value if isinstance(callee, ast.Attribute) and forward.method else callee
            inner = isinstance(holder, ast.Attribute) and holder.attr == "module" and facts.value(holder.value).wrapped
            counts = position(forward.call) < first and not enclosing_with(facts, forward.call, *NO_GRADIENT)
            if inner and counts:
                yield finding("DST352", forward.call)
