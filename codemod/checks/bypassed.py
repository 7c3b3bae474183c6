"""A backward past the library that distributes: not scaled, not divided over accumulated batches.

loss.backward()         # accelerator.backward(loss), fabric.backward(loss), engine.backward(loss)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Finding, finding
from . import Kind, check
from ._gradients import CLIPS

if TYPE_CHECKING:
    from ..facts.model import Facts

OWNERS = {"accelerate.Accelerator": "accelerator", "deepspeed.initialize": "engine"}
CLIPPING = {
    "accelerator": "accelerator.clip_grad_norm_(…), under if accelerator.sync_gradients:",
    "engine": '"gradient_clipping" in the configuration of DeepSpeed',
}
CLIPPED = "This clips past the library that distributes: gradients are scaled, or are kept elsewhere."
STEPPED = "This step goes past the engine: it counts batches, scales losses and sends gradients in its own."


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
    yield from steps(facts, owner)


def steps(facts: Facts, owner: str) -> Iterator[Finding]:
    """Clipping and steps of optimizers past a library that keeps gradients of its own, or scaled ones."""
    if owner == "fabric" or (owner == "accelerator" and not is_scaled(facts)):
        return
    for step in facts.steps:
        calls = [*step.clips, *(step.optimizer_steps if owner == "engine" else ())]
        for call in calls:
            held = facts.value(call.func.value) if isinstance(call.func, ast.Attribute) else None
            engine = owner == "engine" and held is not None and held.wrapped
            if engine or call in facts.together or not facts.holds(call):
                continue
            if facts.names.qualified(call.func) in CLIPS:
                yield finding("DST252", call, CLIPPED, CLIPPING[owner])
            elif owner == "engine" and call in step.optimizer_steps:
                yield finding("DST252", call, STEPPED, "engine.step()")


def is_scaled(facts: Facts) -> bool:
    """Whether Accelerate multiplies losses by a scale: its precision is fp16, where the script says so."""
    given = (
        keyword.value
        for file in facts.program
        for call in file.calls.get("accelerate.Accelerator", ())
        for keyword in call.keywords
        if keyword.arg == "mixed_precision"
    )
    return any(isinstance(item, ast.Constant) and item.value == "fp16" for item in given)


def owner_of(name: str) -> str:
    """What the object is mostly called whose backward it should be."""
    return "fabric" if name.endswith(".Fabric") else OWNERS.get(name, "")
