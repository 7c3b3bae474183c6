"""One process: plain torch. What other backends do differently, they override."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..own import own
from ..state import DistifyError, state
from .base import group_parameters


class Single:
    """Gradients and parameters are whole on this process; `.grad` holds what `backward` accumulated."""

    name = "single"
    takes_undefined = True  # parameters may be without gradient on some ranks

    def __init__(self) -> None:
        self.running = False

    def prepare(self, modules: Sequence[nn.Module], optimizers: Sequence[Optimizer]) -> None:
        """Nothing to take over; where gradients are scaled, watch a parameter of each module for torch's backward."""
        if state.precision is None or state.windows is None:
            return
        if state.precision.scaler is None and state.windows.size == 1:
            return
        for module in modules:
            watched = next(p for p in module.parameters() if p.requires_grad)
            watched.register_post_accumulate_grad_hook(self._watch)  # type: ignore[no-untyped-call]

    def _watch(self, param: Tensor) -> None:
        if not self.running and state.backend is self:
            raise DistifyError(
                "backward() of torch ran on a prepared module: its gradients lack the loss scale of fp16 or the weight "
                "of the accumulation window. Write runtime.backward(loss) in place of loss.backward()."
            )

    def backward(self, loss: Tensor, *, sync: bool, **options: Any) -> None:
        """Accumulate gradients in `.grad`; there is nothing to reduce."""
        self.running = True
        try:
            torch.autograd.backward(loss, **options)
        finally:
            self.running = False

    def complete(self) -> None:
        """There is nothing to reduce."""

    def grad(self, outputs: Any, inputs: Any, **options: Any) -> tuple[Tensor | None, ...]:
        """`torch.autograd.grad`."""
        found: tuple[Tensor | None, ...] = torch.autograd.grad(outputs, inputs, **options)
        return found

    def scale_grads(self, optimizers: Iterable[Optimizer], factor: float) -> None:
        """Multiply the gradients of all parameters of these optimizers, each once."""
        seen = {id(p): p for optimizer in optimizers for p in group_parameters(optimizer)}
        grads = _grads(seen.values())
        with torch.no_grad():
            for group in alike(grads):
                torch._foreach_mul_(group, factor)

    def unscale(self, optimizer: Optimizer, inverse_scale: float) -> Tensor:
        """Divide by the loss scale; gradients are equal on all ranks, so an inf of one rank is found on all."""
        return unscale_(_grads(group_parameters(optimizer)), inverse_scale)

    def clip_grad_norm_(
        self, parameters: Sequence[Tensor], max_norm: float, norm_type: float, error_if_nonfinite: bool
    ) -> Tensor:
        """`torch.nn.utils.clip_grad_norm_`: gradients are whole and equal on all ranks."""
        with own():
            return nn.utils.clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)

    def clip_grad_value_(self, parameters: Sequence[Tensor], clip_value: float) -> None:
        """`torch.nn.utils.clip_grad_value_`."""
        with own():
            nn.utils.clip_grad_value_(parameters, clip_value)

    def step(self, optimizer: Optimizer, closure: Any = None) -> Any:
        """The optimizer's own step."""
        return optimizer.step() if closure is None else optimizer.step(closure)

    def full(self, parameter: Tensor) -> Tensor:
        """The parameter itself."""
        return parameter

    def open(self, modules: Sequence[nn.Module], grads: bool) -> AbstractContextManager[None]:
        """Nothing to do."""
        return nullcontext()

    def state_dict(self, obj: Any, host: bool = True) -> dict[str, Any]:
        """The object's own state, its tensors alive as in the original."""
        found: dict[str, Any] = obj.state_dict()
        return found

    def load_state_dict(self, obj: Any, state: dict[str, Any], **options: Any) -> Any:
        """The object's own `load_state_dict`."""
        return obj.load_state_dict(state, **options)

    def in_parts(self, obj: Any) -> dict[str, Any]:
        """The same as `state_dict`."""
        return self.state_dict(obj)

    def room(self, optimizer: Optimizer, parameter: Tensor, shape: torch.Size, dtype: torch.dtype) -> Any:
        """`None`: all state is whole."""
        return None

    def load_parts(self, obj: Any, state: dict[str, Any]) -> None:
        """The same as `load_state_dict`."""
        self.load_state_dict(obj, state)

    def held(self) -> Container[Tensor]:
        """The parameters of prepared modules."""
        return {p for module in state.modules for p in module.parameters()}

    def cuts(self, item: Tensor | Optimizer) -> bool:
        """Nothing is cut."""
        return False

    def whole(self, tensor: Tensor) -> Tensor:
        """A copy."""
        return tensor.detach().clone()


def _grads(parameters: Iterable[Tensor]) -> list[Tensor]:
    return [p.grad for p in parameters if p.grad is not None]


def unscale_(grads: Sequence[Tensor], inverse_scale: float) -> Tensor:
    """Multiply by the inverse of the loss scale; returns 1.0 if one holds inf or NaN, else 0.0, not waited for."""
    found = torch.zeros((), device=state.device)
    with torch.no_grad():
        for group in alike(grads):
            device = group[0].device
            here, scale = torch.zeros((), device=device), torch.full((), inverse_scale, device=device)
            if group[0].dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
                torch._amp_foreach_non_finite_check_and_unscale_(group, here, scale)
            else:  # complex
                here = 1.0 - torch.stack([g.isfinite().all() for g in group]).all().float()
                torch._foreach_mul_(group, inverse_scale)
            found = torch.maximum(found, here.to(found.device))
    return found


def alike(grads: Sequence[Tensor]) -> list[list[Tensor]]:
    """Gradients, of sparse ones the values, grouped by device and type, as the foreach kernels want them."""
    groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    for grad in grads:
        if grad.is_sparse:
            grad = grad._values()
        groups.setdefault((grad.device, grad.dtype), []).append(grad)
    return list(groups.values())
