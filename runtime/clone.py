"""Whole, unmanaged copies of models: `clone`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from .batchnorm import share_statistics
from .collectives import together
from .state import require
from .uncompiled import uncompiled

HOOKS = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
SIDE = ("_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called")
FOREIGN = ("torch.distributed.", "deepspeed.", __name__.rsplit(".", 1)[0] + ".")
ADDED = ("__deepcopy__", "__reduce_ex__")
FSDP = ("_is_fsdp_managed_module", "_fsdp_use_orig_params")
ZERO3 = (
    *("ds_id", "ds_recompute_parameters", "ds_grads_remaining", "pre_bwd_fn", "post_bwd_fn"),
    *("applied_pre_backward_ref_cnt", "_external_params", "_original_parameters"),
    *("ds_external_parameters", "all_parameters"),
)


@uncompiled
def clone(model: nn.Module) -> nn.Module:
    """A copy of a model with whole parameters on this rank, not managed by the runtime; in place of `copy.deepcopy`.

    A collective: all ranks call it. The copy shares nothing with the model and no step changes it, as wanted for EMA
    models, teachers, the best model so far, and for pickling.

    Args:
        model: prepared or not, or part of a prepared one.

    Returns:
        A module of the original class on the same device.

    Raises:
        NotInitialized: `init` has not run.
    """
    run = require("clone")
    assert run.backend is not None
    if run.world_size > 1 and not run.extra.get("alone"):
        share_statistics(model)
    elif any(run.backend.cuts(p) for p in model.parameters()):
        together("clone")
    return whole_copy(model, run.backend)


def whole_copy(model: nn.Module, backend: Any, memo: dict[int, Any] | None = None) -> nn.Module:
    """Deep copy without what the runtime, FSDP or DeepSpeed put into the modules.

    Args:
        model: any module; its parameters may lie in parts.
        backend: makes parameters whole, one after the other, by collectives.
        memo: of `copy.deepcopy`; parameters that are made whole are entered.
    """
    memo = {} if memo is None else memo
    for p in model.parameters():
        if id(p) not in memo and backend.cuts(p):
            memo[id(p)] = nn.Parameter(backend.whole(p), p.requires_grad)
            memo.setdefault(id(memo), []).append(p)
    with bare(model):
        copied: nn.Module = copy.deepcopy(model, memo)
    return copied


@contextmanager
def bare(model: nn.Module) -> Iterator[None]:
    """The module tree as it was before it was prepared, but for its parameters."""
    kept: list[tuple[nn.Module, type, dict[str, Any]]] = []
    try:
        for module in list(model.modules()):
            kept.append((module, type(module), dict(module.__dict__)))
            _strip(module)
        yield
    finally:
        for module, cls, attributes in kept:
            module.__class__ = cls
            module.__dict__.clear()
            module.__dict__.update(attributes)


def _strip(module: nn.Module) -> None:
    own = own_class(type(module))
    if own is not type(module):
        module.__class__ = own
    attributes = module.__dict__
    for name in HOOKS:
        hooks = attributes.get(name)
        if hooks:
            attributes[name] = type(hooks)((k, hook) for k, hook in hooks.items() if not foreign(hook))
    left = {key for name in HOOKS for key in attributes.get(name, ())}
    for name in SIDE:
        if attributes.get(name):
            attributes[name] = type(attributes[name])((k, v) for k, v in attributes[name].items() if k in left)
    for name, value in list(attributes.items()):
        if _entry(value) and getattr(value, "own", None) is not None:
            attributes[name] = value.own
        elif name in ADDED or name in FSDP or name.startswith("__composable_api_") or _entry(value):
            del attributes[name]
    parameters = attributes.get("_parameters")
    if parameters is not None and type(parameters) is not dict and type(parameters).__module__.startswith("deepspeed."):
        attributes["_parameters"] = dict(dict.items(parameters))
    if "pre_bwd_fn" in attributes:
        for name, value in list(attributes.items()):
            if name in ZERO3 or type(value).__module__.startswith("deepspeed."):
                del attributes[name]


def own_class(cls: type) -> type:
    """The class that a module had before FSDP or DeepSpeed changed it."""
    while any(base.__name__ == "FSDPModule" for base in cls.__mro__):
        cls = cls.__mro__[2]
    return cls


def touched(model: nn.Module) -> bool:
    """Whether the runtime, FSDP or DeepSpeed put anything into the modules of this tree."""
    for module in model.modules():
        attributes = vars(module)
        if own_class(type(module)) is not type(module) or any(name in attributes for name in ADDED):
            return True
        if _entry(attributes.get("forward")):
            return True
        if any(foreign(hook) for name in HOOKS for hook in attributes.get(name, {}).values()):
            return True
    return False


def foreign(hook: Any) -> bool:
    """Whether a hook was registered by the runtime, FSDP or DeepSpeed."""
    hook = getattr(hook, "hook", hook)  # torch wraps the hooks of load_state_dict
    function = getattr(hook, "func", getattr(hook, "__func__", hook))
    return str(getattr(function, "__module__", "")).startswith(FOREIGN)


def _entry(value: Any) -> bool:
    """Whether an instance's attribute is a method that the runtime put in place of the class's."""
    if getattr(type(value), "stands_in", False) and type(value).__module__.startswith(FOREIGN[-1]):
        return True
    return str(getattr(value, "__globals__", {}).get("__name__", "")).startswith(FOREIGN[-1])
