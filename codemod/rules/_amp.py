"""What the script says about precision by itself; no rule by itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..trees import walk
from ._source import RUNTIME, SHARDED, calls, dotted, in_module_class, keyword_value, setting

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

SCALERS = ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler")
AUTOCASTS = (
    "torch.autocast",
    "torch.amp.autocast",
    "torch.cuda.amp.autocast",
    "torch.cpu.amp.autocast",
    "torch.amp.autocast_mode.autocast",
    "torch.cuda.amp.autocast_mode.autocast",
)
TYPES = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.half": "fp16"}


def folds(facts: Facts, options: Options) -> bool:
    """Whether the script's own scaling and autocast give way to the runtime's.

    Kept, they do exactly what they did on `ddp`: the gradients that the scaler sees are those of the whole batch, so
    that it skips a step on all processes or none. They give way to a precision that was asked for, to backends that
    own the gradients, and to an accumulation window.
    """
    return (
        setting(facts, options, "precision") is not None
        or setting(facts, options, "backend") in SHARDED
        or setting(facts, options, "accumulate") not in (None, 1)
    )


def own_precision(facts: Facts) -> str | None:
    """The precision that the program's own autocast and scaler are switched on for; `None` if a condition decides."""
    found = set()
    for file in facts.program:
        for call in calls(file, *AUTOCASTS):
            if not is_off(call) and not in_module_class(file, call):
                found.add(_type_of(file, call) if is_on(file, call) else None)
    scalers = [(file, call) for file in facts.program for call in calls(file, *SCALERS) if not is_off(call)]
    if not found and scalers:
        found.add("fp16")
    return found.pop() if len(found) == 1 and all(is_on(*item) for item in scalers) else None


def is_off(call: ast.Call) -> bool:
    """Whether an autocast or a scaler is switched off for good."""
    switch = keyword_value(call, "enabled")
    return isinstance(switch, ast.Constant) and switch.value is False


def is_on(facts: Facts, call: ast.Call) -> bool:
    """Whether no condition switches an autocast or a scaler off."""
    switch = keyword_value(call, "enabled")
    always = switch is None or (isinstance(switch, ast.Constant) and switch.value is True)
    return always and not isinstance(facts.parents[call], (ast.IfExp, ast.If))


def _type_of(facts: Facts, call: ast.Call) -> str | None:
    """The precision of an autocast that is on: bf16 on the CPU and fp16 elsewhere, if it does not say."""
    general = not (facts.names.qualified(call.func) or "").startswith(("torch.cuda.", "torch.cpu."))
    place = 1 if general else 2 if len(call.args) > 2 else -1
    node = keyword_value(call, "dtype") or (call.args[place] if 0 < place < len(call.args) else None)
    if node is not None:
        return TYPES.get(facts.names.qualified(node) or "")
    where = (keyword_value(call, "device_type") or next(iter(call.args), None)) if general else None
    cpu = isinstance(where, ast.Constant) and where.value == "cpu"
    return "bf16" if cpu or (facts.names.qualified(call.func) or "").startswith("torch.cpu.") else "fp16"


def names_autocast(facts: Facts, node: ast.AST) -> bool:
    """Whether an expression makes an autocast context, or hands its class on."""
    wanted = (f"{RUNTIME}.autocast", *AUTOCASTS)
    parts = (part for part in walk(node) if isinstance(part, (ast.Name, ast.Attribute)))
    return any(facts.names.qualified(part) in wanted for part in parts)


def enters_autocast(facts: Facts, node: ast.expr) -> bool:
    """Whether a context of a `with` is an autocast: made there, or held by a name (`with ctx:`, `with amp():`)."""
    if names_autocast(facts, node):
        return True
    held = dotted(node.func if isinstance(node, ast.Call) else node)
    return held is not None and any(names_autocast(facts, value) for value in facts.assigned.get(held, ()))
