"""Gradients and clipping of torch's own that go past the runtime, as in a library that the codemod does not see.

A backward of torch is noticed by the hooks of prepared parameters and by the reductions. `torch.autograd.grad` with
respect to parameters runs no hook, so the call that starts torch's engine is watched: what it returns is compared
between ranks, now and then, and is an error where it is that of each rank's rows only.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad

from .bypass import differ
from .guard import by_itself, in_own_thread
from .lost import in_own_process
from .optim import against_gradients
from .own import is_own
from .state import DistifyError, state

ENGINE = "_engine_run_backward"  # what `torch.autograd.backward` and `torch.autograd.grad` call
NORM = "_clip_grads_with_norm_"  # what `torch.nn.utils.clip_grad_norm_` calls
BACKWARD = ("backward()", "runtime.backward(loss) in place of loss.backward()")
GRAD = ("grad()", "runtime.grad(outputs, inputs) in place of torch.autograd.grad(outputs, inputs)")


def install() -> None:
    """Watch the calls."""
    _replace(torch.autograd, ENGINE, _engine)
    _replace(clip_grad, NORM, functools.partial(_clip, "clip_grad_norm_"))
    for module in (clip_grad, torch.nn.utils):
        _replace(module, "clip_grad_value_", functools.partial(_clip, "clip_grad_value_"))


def uninstall() -> None:
    """Watch no longer."""
    for module, name in ((torch.autograd, ENGINE), (clip_grad, NORM)):
        _restore(module, name)
    for module in (clip_grad, torch.nn.utils):
        _restore(module, "clip_grad_value_")


def _replace(module: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    original = getattr(module, name, None)  # a later torch may not have it: then nothing is watched
    if original is not None and not hasattr(original, "_distify_original"):
        made = functools.wraps(original)(wrap(original))
        made._distify_original = original  # type: ignore[attr-defined]
        setattr(module, name, made)


def _restore(module: Any, name: str) -> None:
    original = getattr(getattr(module, name, None), "_distify_original", None)
    if original is not None:
        setattr(module, name, original)


def _watched() -> bool:
    """Whether a call made now is one that all ranks make, and none of the runtime's own."""
    if state.config is None or is_own() or by_itself() or not in_own_thread():
        return False
    return in_own_process()


def _engine(original: Callable[..., Any]) -> Callable[..., Any]:
    """Around the start of torch's engine."""

    def run(outputs: Any, *args: Any, **options: Any) -> Any:
        if not _watched():
            return original(outputs, *args, **options)
        grads = options.get("accumulate_grad") is False
        wanted = _parameters(args[3]) if grads and len(args) > 3 else []
        if grads and len(args) > 2 and args[2]:
            _check_twice(outputs)
        before = state.extra.get("raw")
        state.extra["raw"] = GRAD if grads else BACKWARD
        try:
            found = original(outputs, *args, **options)
        finally:
            state.extra["raw"] = before
            if before is None:
                del state.extra["raw"]
        if wanted and not _in_vmap():
            _compare([found[k] for k in wanted])
        return found

    return run


def _parameters(inputs: Sequence[Any]) -> list[int]:
    """Which of these are parameters of prepared modules.

    Raises:
        DistifyError: one lies in parts, and no graph holds it.
    """
    assert state.backend is not None
    held = state.backend.held()
    found = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x in held]
    if state.backend.name == "fsdp" and any(state.backend.cuts(inputs[k]) for k in found):
        raise DistifyError(
            f"torch.autograd.grad was called{_place()} with respect to parameters that fsdp holds in parts: no graph "
            f"knows them. Write {GRAD[1]}."
        )
    return found


def _check_twice(outputs: Sequence[Any]) -> None:
    """Gradients with a graph of their own, outside of a forward: fsdp frees parameters that the second backward needs.

    Raises:
        DistifyError: they were computed through a model that fsdp cuts.
    """
    assert state.backend is not None
    if state.backend.name != "fsdp" or (state.streams is not None and state.streams.depth > 0):
        return
    held = state.backend.held()
    open_nodes = [x.grad_fn for x in outputs if isinstance(x, Tensor) and x.grad_fn is not None]
    seen = set(open_nodes)
    while open_nodes:
        node = open_nodes.pop()
        if getattr(node, "variable", None) in held:
            raise DistifyError(
                f"torch.autograd.grad(…, create_graph=True) was called{_place()} through a model whose parameters fsdp "
                f"holds in parts: the second backward would not find them. Write {GRAD[1]}."
            )
        fresh = [inner for inner, _ in node.next_functions if inner is not None and inner not in seen]
        seen.update(fresh)
        open_nodes += fresh


def _compare(grads: Iterable[Tensor | None]) -> None:
    """Compare gradients between ranks at the 1st, 2nd, 4th, 8th… call of a place in the script."""
    counts: dict[Any, int] = state.extra.setdefault("raw gradients", {})
    place = _caller()
    count = counts[place] = counts.get(place, 0) + 1
    if count & (count - 1) == 0 and differ(grads):
        raise DistifyError(
            f"torch.autograd.grad was called{_place()} with respect to parameters of a prepared module, and what it "
            "returned differs between ranks: it is the gradient of each rank's rows only. Reduce the loss with "
            f"runtime.mean or runtime.sum, and write {GRAD[1]}."
        )


def _caller() -> tuple[CodeType, int] | None:
    """Where the script or a library called torch."""
    own = (__name__, "torch.autograd", "torch.nn.utils")
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(own):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else (frame.f_code, frame.f_lineno)


def _place() -> str:
    found = _caller()
    return "" if found is None else f" at {os.path.basename(found[0].co_filename)}:{found[1]}"


def _in_vmap() -> bool:
    """Whether torch's older vmap runs (`is_grads_batched=True`): its tensors have no values to compare."""
    enter = getattr(torch._C, "_vmapmode_increment_nesting", None)
    if enter is None:
        return False
    depth = int(enter())
    torch._C._vmapmode_decrement_nesting()
    return depth > 1


def _clip(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Around torch's clipping: it must see whole gradients, not scaled, where the step takes them from."""

    def run(parameters: Any, *args: Any, **options: Any) -> Any:
        if state.config is None or is_own():
            return original(parameters, *args, **options)
        found = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        assert state.backend is not None
        held = state.backend.held()
        if any(p in held for p in found):
            reason = against_gradients()
            if reason is None and getattr(state.backend, "behind", False):
                reason = "what the last backwards accumulated has not been reduced over the ranks yet"
            if reason is not None:
                raise DistifyError(
                    f"torch.nn.utils.{name} was called{_place()} on parameters of a prepared module, but {reason}. "
                    f"Write runtime.{name}(…) in its place, with the same arguments."
                )
        return original(found, *args, **options)

    return run
