"""What DeepSpeed's engines can take: which modules go with which optimizer, and what must be refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..state import DistifyError
from .base import group_parameters
from .buckets import sparse_parameters
from .elementwise import refusal

WHERE = "runtime.prepare() with backend 'deepspeed'"


def check(modules: Sequence[nn.Module], optimizers: Sequence[Optimizer], known: Mapping[Tensor, Any]) -> None:
    """Refuse what an engine can't do.

    Raises:
        DistifyError: an optimizer that is not element-wise; parameters that are not fp32, or whose gradients are
            sparse; a module that was prepared with another optimizer.
    """
    for optimizer in optimizers:
        reason = refusal(optimizer, "deepspeed")
        if reason is not None:
            raise DistifyError(f"{WHERE}: {reason}")
        if any(p in known for p in group_parameters(optimizer)):
            raise DistifyError(
                f"{WHERE}: {type(optimizer).__name__} updates parameters of a module that was prepared before. An "
                "engine is built once, for modules and their optimizer together: pass them in one call. For a later "
                "phase of training change optimizer.param_groups, or use backend='fsdp'."
            )
    for module in modules:
        odd = [(n, p) for n, p in module.named_parameters() if p.requires_grad and p.dtype != torch.float32]
        if odd:
            raise DistifyError(
                f"{WHERE}: parameter {odd[0][0]!r} of {type(module).__name__} is {odd[0][1].dtype}. DeepSpeed wants "
                "fp32 parameters and makes its copies of lower precision itself: build the model in fp32 and pass "
                "precision='bf16' or 'fp16' to runtime.init(), or use backend='fsdp'."
            )
        empty = next((n for n, p in module.named_parameters() if p.requires_grad and not p.numel()), None)
        if empty is not None:
            raise DistifyError(
                f"{WHERE}: parameter {empty!r} of {type(module).__name__} has no elements, and DeepSpeed can't cut it: "
                "leave it out, or use backend='fsdp'."
            )
        if sparse_parameters(module):
            raise DistifyError(
                f"{WHERE}: {type(module).__name__} has an embedding with sparse=True, which ZeRO can't reduce. Set "
                "sparse=False, or use backend='fsdp'."
            )


def engines_of(
    modules: Sequence[nn.Module], optimizers: Sequence[Optimizer]
) -> list[tuple[list[nn.Module], Optimizer]]:
    """Pair each optimizer with the modules that it updates.

    Raises:
        DistifyError: two optimizers update one model, or none does.
    """
    owner: dict[Tensor, int] = {}  # by parameter: index of its group of modules
    groups: list[list[nn.Module]] = []
    for module in modules:
        joined = sorted({owner[p] for p in module.parameters() if p in owner})
        _join(groups, owner, joined, module)
    found: dict[int, Optimizer] = {}
    for optimizer in optimizers:
        mine = sorted({owner[p] for p in group_parameters(optimizer) if p in owner})
        if not mine:
            raise DistifyError(f"{WHERE}: {type(optimizer).__name__} updates no parameter of the modules in this call.")
        _join(groups, owner, mine, None)
        other = found.get(mine[0]) or next((found[k] for k in mine if k in found), None)
        if other is not None:
            raise DistifyError(
                f"{WHERE}: {type(other).__name__} and {type(optimizer).__name__} both update parts of "
                f"{_names(groups[mine[0]])}. A DeepSpeed engine has one optimizer: make them param groups of one, or "
                "use backend='fsdp'."
            )
        found[mine[0]] = optimizer
    for k, group in enumerate(groups):
        if group and k not in found:
            raise DistifyError(
                f"{WHERE}: no optimizer in this call updates {_names(group)}. DeepSpeed steps with a torch optimizer "
                "only: pass it in the same runtime.prepare() call, freeze the module with requires_grad_(False), or "
                "use backend='fsdp' for hand-written updates."
            )
    return [(groups[k], optimizer) for k, optimizer in found.items()]


def _join(groups: list[list[nn.Module]], owner: dict[Tensor, int], joined: list[int], module: nn.Module | None) -> None:
    """Put groups of modules, and perhaps one more module, into one."""
    if not joined:
        joined = [len(groups)]
        groups.append([])
    first = joined[0]
    for k in joined[1:]:
        groups[first] += groups[k]
        groups[k] = []
    if module is not None:
        groups[first].append(module)
    for member in groups[first]:
        owner.update(dict.fromkeys(member.parameters(), first))


def _names(modules: Sequence[nn.Module]) -> str:
    return " and ".join(type(module).__name__ for module in modules)
