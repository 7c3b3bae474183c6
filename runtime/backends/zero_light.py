"""What DeepSpeed makes Python do in each step for answers that nobody needs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from torch import nn


def lighten(zero: Any, modules: Iterable[nn.Module]) -> None:
    """Leave it out: about a tenth of the host's time of a step of ZeRO 3.

    Args:
        zero: DeepSpeed's optimizer.
        modules: what it updates.
    """
    nvtx: Any = import_module("deepspeed.utils.nvtx")
    nvtx.enable_nvtx = False  # names of ranges, for a profiler that is not there
    # How many hooks will run, found by a walk through the graph: `Zero.end` knows when a backward is over.
    zero.should_refresh_expected_hook_count = _no
    for module in modules:
        for part in module.modules():
            for name in ("pre_bwd_fn", "post_bwd_fn"):
                function = part.__dict__.get(name)
                if function is not None:  # torch asks for it at each call
                    function.forward.__signature__ = inspect.signature(function.forward)


def _no() -> bool:
    return False
