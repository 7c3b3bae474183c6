"""Methods of a ZeRO 3 model that use large raw parameters: DeepSpeed gathers around `__call__` only."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import nn

from .entries import entries, names_in
from .managed import stand_in


def open_methods(root: nn.Module) -> None:
    """Let such methods run as the forward of their module, with all that DeepSpeed hooks to it."""
    for module in root.modules():
        large = {name: p for name, p in dict.items(module._parameters) if p is not None and not p.ds_persist}  # type: ignore[attr-defined]
        for name in entries(module) if large else ():
            method = getattr(module, name)
            if name != "forward" and large.keys() & set(names_in(method.__func__.__code__)):
                stand_in(module, name, _as_forward(module, method, list(large.values())))


def _as_forward(module: nn.Module, method: Callable[..., Any], parameters: list[Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        if all(p.ds_status.name == "AVAILABLE" for p in parameters):  # inside of a forward
            return method(*args, **kwargs)
        absent = object()
        own = module.__dict__.get("forward", absent)

        def restore() -> None:
            if own is absent:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = own

        def once(*inner: Any, **named: Any) -> Any:
            restore()  # the method may call the module itself
            return method(*inner, **named)

        module.__dict__["forward"] = once
        try:
            return module(*args, **kwargs)
        finally:
            restore()

    return call
