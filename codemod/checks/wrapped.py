"""A training forward past the wrapper: gradients are not shared (jingyaogong/minimind#853, kohya-ss/sd-scripts#989).

loss = criterion(model.module(x), y)        # model(x)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.places import passed
from ..facts.ranks import Mark
from ..facts.values import Role, Value
from ..findings import Finding, finding
from ..rules._source import enclosing_with, position
from . import Kind, check
from ._gradients import NO_GRADIENT

if TYPE_CHECKING:
    from ..facts.model import Facts

ENGINE = "deepspeed.initialize"


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
    if Mark.WRAPPER in value.ranks or not value.objs:
        return False
    return any(value.objs == objects for objects in facts.worked_out(wrapped_models))


def wrapped_models(facts: Facts) -> frozenset[frozenset[int]]:
    """The models that something is called with which gives them in a wrapper."""
    found = set()
    for file in facts.program:
        for call in file.nodes:
            if not isinstance(call, ast.Call) or file.names.qualified(call.func) == ENGINE:
                continue  # an engine sends gradients whatever made them
            if wraps(file.value(call)):
                given = (file.value(item) for item in passed(call))
                found |= {item.objs for item in given if item.has(Role.MODEL) and Mark.WRAPPER not in item.ranks}
    return frozenset(found)


def wraps(value: Value) -> bool:
    """Whether a value is, or holds, a model in its wrapper."""
    return value.wrapped or any(map(wraps, value.items or ()))
