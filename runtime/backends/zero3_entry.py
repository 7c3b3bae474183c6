"""What ZeRO 3 does before and after the forward of each module, made safe.

Parameters that are gathered under `torch.inference_mode()` become ordinary tensors: a training step may meet them.
DeepSpeed gathers ahead, and keeps what comes first in the next forward. Parameters that were not cut are refused: a
module that holds one was changed after `prepare`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from ..state import refuse_opened
from ..uncompiled import uncompiled
from .managed import replaced


def outside(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes ordinary tensors in every mode."""

    @uncompiled
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_inference_mode_enabled():
            return function(*args, **kwargs)
        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **kwargs)

    return call


def watch_entries(offload: Any, modules: Iterable[nn.Module]) -> None:
    """Let the hooks of a forward, and parameters that are gathered when they are looked at, do that.

    Args:
        offload: DeepSpeed's `DeepSpeedZeRoOffload`, whose hooks call the functions that are replaced.
        modules: those of an engine.
    """
    gather, release = outside(offload.pre_sub_module_forward_function), offload.post_sub_module_forward_function

    @uncompiled
    def before(module: Any) -> None:
        _check(module)
        gather(module)

    offload.pre_sub_module_forward_function, offload.post_sub_module_forward_function = before, outside(release)
    for root in modules:
        check = functools.partial(_check_all, list(root.modules()))  # DeepSpeed looks at all when a forward begins
        root.register_forward_pre_hook(check, prepend=True)
        for p in root.parameters():
            p.all_gather = outside(p.all_gather)  # type: ignore[attr-defined]


@uncompiled
def _check_all(modules: Iterable[nn.Module], *_: Any) -> None:
    for module in modules:
        _check(module)


def _check(module: nn.Module) -> None:
    """Before a forward.

    Raises:
        DistifyError: the module holds a parameter that was not cut, or lies open.
    """
    refuse_opened("a part of a prepared module")
    for name, p in module._parameters.items():  # not by DeepSpeed's own way of looking one up, which gathers it
        if p is not None and not hasattr(p, "ds_id"):
            raise replaced(f"{type(module).__name__}.{name}", "deepspeed")
