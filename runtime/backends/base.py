"""The protocol that every backend keeps; adding one touches no other file but the registry beside it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

CUTTING = ("fsdp", "deepspeed")  # backends that cut parameters into parts


class Backend(Protocol):
    """How gradients are reduced and parameters are stored.

    Invariant: when `backward(..., sync=True)` returns, `.grad` of every parameter of a prepared module is the average
    over ranks of all that was accumulated since it was last cleared (deepspeed: it enters the next `step`).
    """

    name: str

    def prepare(self, modules: Sequence[nn.Module], optimizers: Sequence[Optimizer]) -> None:
        """Take over modules and their optimizers in place; every object keeps its identity and state."""

    def backward(self, loss: Tensor, *, sync: bool, **options: Any) -> None:
        """Accumulate the gradients of a loss that is already scaled; reduce over ranks if `sync`."""

    def complete(self) -> None:
        """Reduce what backwards without `sync` left on each rank; a collective, if there were any since the last."""

    def grad(self, outputs: Any, inputs: Any, **options: Any) -> tuple[Tensor | None, ...]:
        """`torch.autograd.grad`, without the reduction of the inner backward."""

    def scale_grads(self, optimizers: Iterable[Optimizer], factor: float) -> None:
        """Multiply the accumulated gradients (end of a window whose divisor was not known ahead)."""

    def unscale(self, optimizer: Optimizer, inverse_scale: float) -> Tensor:
        """Divide the gradients by the loss scale; return a 0-dim float tensor, 1.0 if any rank holds inf or NaN."""

    def clip_grad_norm_(
        self, parameters: Sequence[Tensor], max_norm: float, norm_type: float, error_if_nonfinite: bool
    ) -> Tensor:
        """Clip by the norm over all shards of the (unscaled) gradients; return the norm before clipping, 0-dim."""

    def clip_grad_value_(self, parameters: Sequence[Tensor], clip_value: float) -> None:
        """Clamp the (unscaled) gradients elementwise."""

    def step(self, optimizer: Optimizer, closure: Any = None) -> Any:
        """One optimizer step on unscaled gradients; `closure` is passed on only where there is one (LBFGS)."""

    def full(self, parameter: Tensor) -> Tensor:
        """The whole parameter, differentiable, for code outside a forward."""

    def open(self, modules: Sequence[nn.Module], grads: bool) -> AbstractContextManager[None]:
        """Whole parameters, and gradients if `grads`, in these modules; what is changed in it is kept; a collective."""

    def state_dict(self, obj: Any, host: bool = True) -> dict[str, Any]:
        """State of a prepared module or optimizer with the original's keys, shapes and dtypes, whole, on all ranks.

        Parameters of a module are on the CPU only if the backend had to gather them, and `host` is true; a collective,
        called on all ranks.
        """

    def load_state_dict(self, obj: Any, state: dict[str, Any], **options: Any) -> Any:
        """Load what `state_dict` (here or in the original) returned; a collective."""

    def in_parts(self, obj: Any) -> dict[str, Any]:
        """`state_dict`, with a `Piece` for each tensor that lies in parts; its memory is the backend's own."""

    def room(self, optimizer: Optimizer, parameter: Tensor, shape: torch.Size, dtype: torch.dtype) -> Any:
        """A new `Piece` for state of a parameter that will lie in parts; `None` if such state is whole here."""

    def load_parts(self, obj: Any, state: dict[str, Any]) -> None:
        """Take over what `in_parts` would return, once its tensors have been read: those of a module into itself, those
        of an optimizer into what `room` made; a collective."""

    def held(self) -> Container[Tensor]:
        """What a graph may hold as leaves for the parameters of prepared modules."""

    def cuts(self, item: Tensor | Optimizer) -> bool:
        """Whether a tensor, or what an optimizer holds, lies in parts on the ranks."""

    def whole(self, tensor: Tensor) -> Tensor:
        """A new tensor with the whole values of a parameter, on its device; a collective where it is cut."""


def group_parameters(optimizer: Optimizer) -> list[Tensor]:
    """All parameters of an optimizer in group order."""
    return [p for group in optimizer.param_groups for p in group["params"] if isinstance(p, torch.Tensor)]
