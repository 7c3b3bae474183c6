"""A training forward past the wrapper: gradients are not shared (jingyaogong/minimind#853, kohya-ss/sd-scripts#989).

loss = criterion(model.module(x), y)        # model(x)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.collectives import WRAPPERS
from ..facts.places import passed
from ..facts.ranks import Mark
from ..findings import Finding, finding
from ..rules._source import calls, enclosing_with, position
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
            if counts and (inner or goes_past(facts, holder)):
                yield finding("DST352", forward.call)


def goes_past(facts: Facts, holder: ast.expr) -> bool:
    """Whether an expression is a model that was wrapped, without its wrapper."""
    value = facts.value(holder)
    if Mark.WRAPPER in value.ranks or not value.objs or not isinstance(holder, (ast.Name, ast.Attribute)):
        return False
    wrapping = [(file, call) for file in facts.program for call in calls(file, *WRAPPERS)]
    given = [(file, item) for file, call in wrapping for item in passed(call)[:1]]
    return any(
        value.objs == file.value(item).objs and Mark.WRAPPER not in file.value(item).ranks for file, item in given
    )
