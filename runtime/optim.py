"""Clipping, and the steps of optimizers and schedulers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from . import digest
from .backends.base import group_parameters
from .meeting import meet
from .overflow import skips_by_itself, told
from .state import DistifyError, State, require, state
from .steps import Steps, steps
from .trace import trace
from .uncompiled import uncompiled


@uncompiled
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients so that their joint norm over all shards is at most `max_norm`; unscales them first (fp16).

    Args:
        parameters, max_norm, norm_type, error_if_nonfinite: as in `torch.nn.utils.clip_grad_norm_`.
        foreach: accepted; the backend chooses.

    Returns:
        The norm before clipping, 0-dim, equal on all ranks.

    Raises:
        NotInitialized: `init` has not run.
        RuntimeError: the norm is not finite and `error_if_nonfinite` is set.
    """
    run = require("clip_grad_norm_")
    meet("runtime.clip_grad_norm_()")
    assert run.backend is not None
    run.backend.complete()
    found = _listed(parameters)
    _unscale_owners(run, found)
    return run.backend.clip_grad_norm_(found, float(max_norm), float(norm_type), error_if_nonfinite)


@uncompiled
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clamp each element of the gradients to `[-clip_value, clip_value]`; unscales them first (fp16).

    Args:
        parameters, clip_value: as in `torch.nn.utils.clip_grad_value_`.
        foreach: accepted; the backend chooses.

    Raises:
        NotInitialized: `init` has not run.
    """
    run = require("clip_grad_value_")
    meet("runtime.clip_grad_value_()")
    assert run.backend is not None
    run.backend.complete()
    found = _listed(parameters)
    _unscale_owners(run, found)
    run.backend.clip_grad_value_(found, float(clip_value))


def _listed(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def _unscale_owners(run: State, parameters: list[Tensor]) -> None:
    """Unscale the optimizers that own any of these parameters, each once."""
    scaler = run.precision.scaler if run.precision is not None else None
    if scaler is None:
        return
    wanted = {id(p) for p in parameters}
    assert run.backend is not None
    for optimizer in run.optimizers:
        if any(id(p) in wanted for p in group_parameters(optimizer)):
            scaler.unscale(run.backend, optimizer)


@uncompiled
def step(optimizer_or_scheduler: Any, *args: Any, closure: Callable[[], Any] | None = None) -> Any:
    """Step an optimizer, or a scheduler.

    Under fp16 the gradients are unscaled first if clipping has not done so, and the step is skipped on all ranks if
    any rank's gradients hold inf or NaN. A scheduler does not move while all steps that its optimizer tried since its
    last move were skipped.

    Args:
        optimizer_or_scheduler: a prepared optimizer; or a scheduler (anything else that has `step`).
        args: what the scheduler's own `step` takes, such as the metric of `ReduceLROnPlateau`.
        closure: recomputes the loss and calls `runtime.backward`, for optimizers that ask for it (LBFGS).

    Returns:
        What the own `step` returns; `None` where it was skipped.

    Raises:
        NotInitialized: `init` has not run.
        DistifyError: the optimizer was not prepared, or an accumulation window is not complete.
    """
    run = require("step")
    if isinstance(optimizer_or_scheduler, Optimizer):
        return _step_optimizer(run, optimizer_or_scheduler, closure or (args[0] if args else None))
    return _step_scheduler(optimizer_or_scheduler, args)


def _step_optimizer(run: State, optimizer: Optimizer, closure: Callable[[], Any] | None) -> Any:
    if not any(optimizer is known for known in run.optimizers):
        raise DistifyError(
            f"runtime.step(): this {type(optimizer).__name__} was not prepared. Pass it to runtime.prepare() together "
            "with the modules whose parameters it updates."
        )
    _check_window(run)
    meet("runtime.step()", type(optimizer).__name__)
    counts, notes = steps(), trace()
    _check_parameters(run, optimizer, counts)
    assert run.backend is not None
    run.backend.complete()
    assert run.precision is not None
    scaler = run.precision.scaler
    counts.tried[optimizer] = counts.tried.get(optimizer, 0) + 1
    overflow = None
    if scaler is not None:
        if closure is not None:
            raise DistifyError(
                "runtime.step(closure=…): a closure computes gradients inside the step, where they can't be unscaled. "
                'Use precision="bf16" or "fp32" with this optimizer.'
            )
        scaler.unscale(run.backend, optimizer)
        overflow = scaler.overflow(optimizer)
    inside = False
    if overflow is not None and notes is None and run.backend.name != "deepspeed":
        inside = skips_by_itself(optimizer, overflow)
    skip = not inside and bool(overflow)
    if notes is not None:
        notes.step(group_parameters(optimizer), skip)
    if skip:
        digest.after_step(optimizer)
        return None
    counts.running = optimizer
    try:
        with told(optimizer, overflow if inside else None):
            result = run.backend.step(optimizer) if closure is None else run.backend.step(optimizer, closure)
    finally:
        counts.running = None
    if overflow is not None and inside:
        counts.settled(wait=False).open.append((optimizer, overflow))
    else:
        counts.taken[optimizer] = counts.taken.get(optimizer, 0) + 1
    digest.after_step(optimizer)
    return result


def _check_parameters(run: State, optimizer: Optimizer, counts: Steps) -> None:
    """Parameters that joined the optimizer after `prepare` must belong to what was prepared."""
    size = sum(len(group["params"]) for group in optimizer.param_groups)
    if counts.sizes.get(optimizer) == size:
        return
    knows = getattr(run.backend, "knows", None)
    if knows is not None and not all(knows(p) for p in group_parameters(optimizer) if p.requires_grad):
        raise DistifyError(
            f"runtime.step(): {type(optimizer).__name__} updates parameters that were made after runtime.prepare(), so "
            "their gradients are those of this rank's rows only. Build the whole model before runtime.prepare()."
        )
    counts.sizes[optimizer] = size


def _check_window(run: State) -> None:
    """An optimizer steps where its window ends."""
    assert run.windows is not None
    if run.windows.size == 1:
        return
    window = run.windows.current
    if window is None:
        run.windows.check_entered()
        raise DistifyError(
            f"runtime.step() under accumulate={run.windows.size}: the script has no `with runtime.accumulate() as "
            "window:` block here. Convert it with `distify rewrite --accumulate N`, or remove the option."
        )
    if not window.ends:
        raise DistifyError(
            "runtime.step(): the accumulation window is not complete, so gradients are not reduced yet. "
            "Put the step under `if window.ends:`."
        )
    window.stepped = True


def _step_scheduler(scheduler: Any, args: tuple[Any, ...]) -> Any:
    optimizer = getattr(scheduler, "optimizer", None)
    if isinstance(optimizer, Optimizer):
        counts = steps().settled()
        now = counts.tried.get(optimizer, 0), counts.taken.get(optimizer, 0)
        tried, taken = counts.seen.get(scheduler, (0, 0))
        if now[0] > tried and now[1] == taken:
            return None
        counts.seen[scheduler] = now
    return scheduler.step(*args)


def guard_step(optimizer: Optimizer, *_: Any) -> None:
    """Pre-hook of prepared optimizers: a step that goes past `runtime.step` fails where it would train wrongly."""
    if not any(optimizer is known for known in state.optimizers) or steps().running is optimizer:
        return
    assert state.windows is not None
    state.windows.check_entered()
    reason = against_step()
    if reason is not None:
        raise DistifyError(
            f"optimizer.step() was called directly, but {reason}. Write runtime.step(optimizer) in its place."
        )
    assert state.backend is not None
    state.backend.complete()


def against_step() -> str | None:
    """Why a step of torch on parameters of prepared modules would go wrong now; `None` if it would not."""
    assert state.backend is not None
    if state.backend.name not in ("single", "ddp"):
        return f"parameters and gradients are managed by {state.backend.name}"
    return against_gradients()


def against_gradients() -> str | None:
    """Why the `.grad` of prepared parameters is not the gradient of the step now; `None` if it is."""
    assert state.precision is not None
    assert state.backend is not None
    assert state.windows is not None
    if state.precision.scaler is not None:
        return "gradients are multiplied by the loss scale of fp16"
    if state.backend.name == "deepspeed":
        return "gradients are managed by deepspeed, and `.grad` does not hold them"
    if state.windows.size > 1 and not (state.windows.current is not None and state.windows.current.ends):
        return "the accumulation window is not complete"
    return None


def register_guard(optimizer: Optimizer) -> None:
    """Watch the optimizer's own `step`."""
    optimizer.register_step_pre_hook(guard_step)
