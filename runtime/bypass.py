"""Steps of optimizers that nobody prepared: they are right only where all ranks hold the same gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from . import guard
from .backends.base import group_parameters
from .lost import in_own_process, reach
from .optim import against_step
from .state import DistifyError, state
from .steps import steps

TOLERANCE = 0.01  # of the norm: ranks that compute the same on GPUs may differ by rounding, slices differ by far more


def install() -> None:
    """Watch the steps of all optimizers."""
    state.extra["steps watched"] = register_optimizer_step_pre_hook(_check)


def uninstall() -> None:
    """Watch no longer."""
    handle = state.extra.pop("steps watched", None)
    if handle is not None:
        handle.remove()


def _check(optimizer: Optimizer, *_: Any) -> None:
    """Look at an optimizer that was not prepared: gradients of prepared modules are the backend's; others are compared.

    Raises:
        DistifyError: the step would be wrong.
    """
    if any(optimizer is known for known in state.optimizers) or steps().running is not None:
        return
    if state.extra.get("alone") or state.extra.get("in turn") or not in_own_process() or not guard.in_own_thread():
        return
    assert state.backend is not None
    name, held = type(optimizer).__name__, state.backend.held()
    strangers = [p for p in group_parameters(optimizer) if p not in held]
    reason = against_step() if len(strangers) < len(group_parameters(optimizer)) else None
    if reason is not None:
        raise DistifyError(
            f"{name}.step() was called directly, on an optimizer that was not prepared, but {reason}. Pass it to "
            "runtime.prepare() with its modules, and write runtime.step(optimizer)."
        )
    if strangers:
        _compare(optimizer, name, strangers)


def _compare(optimizer: Optimizer, name: str, parameters: Iterable[Tensor]) -> None:
    """Compare gradients between ranks in the optimizer's 1st, 2nd, 4th, 8th… step."""
    counts: WeakKeyDictionary[Optimizer, int] = state.extra.setdefault("unprepared steps", WeakKeyDictionary())
    count = counts[optimizer] = counts.get(optimizer, 0) + 1
    if count & (count - 1) == 0 and differ(p.grad for p in parameters):
        raise DistifyError(
            f"{name}.step() was called directly, on an optimizer that was not prepared, and its gradients differ "
            "between ranks: they are those of each rank's rows only. Write runtime.prepare(model, optimizer) once, and "
            "runtime.backward(loss) and runtime.step(optimizer) in the loop."
        )


def differ(grads: Iterable[Tensor | None]) -> bool:
    """Whether gradients differ between ranks, told by their number, their norm and one projection."""
    mark = torch.zeros(3, dtype=torch.float64)
    for grad in grads:
        if grad is not None:
            mark += _mark(grad.detach()).cpu()
    mark = mark.to(state.device)
    both = torch.cat([mark, -mark])
    reach(dist.all_reduce, both, dist.ReduceOp.MAX, group=state.reduce_group)
    high, low = both[:3].tolist(), (-both[3:]).tolist()
    if high[0] != low[0]:
        return True
    norm, least = math.sqrt(high[1]), math.sqrt(low[1])
    apart: float = max(norm - least, abs(high[2] - low[2]))
    return apart > TOLERANCE * norm


def _mark(grad: Tensor) -> Tensor:
    flat = (grad.coalesce().values() if grad.is_sparse else grad).reshape(-1)
    flat = (torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat).double()
    signs = torch.arange(flat.numel(), device=flat.device, dtype=torch.float64).mul_(0.7).cos_()
    return torch.stack([flat.new_ones(()), flat.square().sum(), (flat * signs).sum()])
