"""What the script says about precision by itself; no rule by itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ._source import calls, keyword_value, setting

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


def folds(facts: Facts, options: Options) -> bool:
    """Whether the script's own scaling and autocast give way to the runtime's.

    Kept, they do exactly what they did on `ddp`: the gradients that the scaler sees are those of the whole batch, so
    that it skips a step on all processes or none. They give way to a precision that was asked for, to backends that
    own the gradients, and to an accumulation window.
    """
    return (
        setting(facts, options, "precision") is not None
        or setting(facts, options, "backend") in ("fsdp", "deepspeed")
        or setting(facts, options, "accumulate") not in (None, 1)
    )


def scales_always(facts: Facts) -> bool:
    """Whether the script has a scaler, and none that a condition switches off."""
    found = calls(facts, *SCALERS)
    switches = [keyword_value(call, "enabled") for call in found]
    on = [switch is None or (isinstance(switch, ast.Constant) and switch.value is True) for switch in switches]
    alone = [not isinstance(facts.parents[call], (ast.IfExp, ast.If)) for call in found]
    return bool(found) and all(on) and all(alone)
