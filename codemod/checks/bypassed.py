"""A backward past the library that distributes: not scaled, not divided over accumulated batches.

loss.backward()         # accelerator.backward(loss), fabric.backward(loss), engine.backward(loss)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Finding, finding
from . import Kind, check

if TYPE_CHECKING:
    from ..facts.model import Facts

OWNERS = {"accelerate.Accelerator": "accelerator", "deepspeed.initialize": "engine"}


@check("bypassed", Kind.BY_HAND)
def bypassed(facts: Facts) -> Iterator[Finding]:
    """`loss.backward()` in a program whose library has a backward of its own."""
    owner = next((name for file in facts.program for name in map(owner_of, file.calls) if name), "")
    if not owner:
        return
    for call in dict.fromkeys(call for step in facts.steps for call in step.backwards):
        own = isinstance(call.func, ast.Attribute) and not call.args
        if own and facts.holds(call) and call not in facts.together:
            message = "This backward goes past the library that distributes: it neither scales the loss nor counts it."
            yield finding("DST251", call, message, f"{owner}.backward(loss)")


def owner_of(name: str) -> str:
    """What the object is mostly called whose backward it should be."""
    return "fabric" if name.endswith(".Fabric") else OWNERS.get(name, "")
