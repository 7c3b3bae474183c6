"""Gradients that lie in parts on the ranks: norms over all of them, clipping, scaling, the search for inf and NaN."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.optim import Optimizer

from ..collectives import all_reduce
from ..sent import sent
from ..state import state
from .base import group_parameters
from .single import alike, unscale_


@dataclass
class Part:
    """This rank's part of one parameter's gradient.

    Attributes:
        grad: any shape; changed in place.
        owner: position of the parameter among those that are looked at.
        counts: whether it enters the norm here; a gradient that is whole on each rank counts on one of them.
    """

    grad: Tensor
    owner: int
    counts: bool = True


class PartedGradients:
    """The part of the protocol that works on gradients which lie in parts."""

    def holders(self) -> ProcessGroup | None:
        """The ranks that hold all parts between them; `None` for all ranks."""
        return None

    def parts(self, parameters: Iterable[Tensor]) -> list[Part]:
        """This rank's parts of the gradients of these parameters, by their position."""
        raise NotImplementedError

    def scale_grads(self, optimizers: Iterable[Optimizer], factor: float) -> None:
        """Multiply the gradients of all parameters of these optimizers, each once."""
        scale_(self.parts({p: None for o in optimizers for p in group_parameters(o)}), factor)

    def unscale(self, optimizer: Optimizer, inverse_scale: float) -> Tensor:
        """Divide this rank's parts by the loss scale; 1.0 if any rank's part holds inf or NaN."""
        found = unscale_([part.grad for part in self.parts(group_parameters(optimizer))], inverse_scale)
        return all_reduce(found, dist.ReduceOp.MAX)

    def clip_grad_norm_(
        self, parameters: Sequence[Tensor], max_norm: float, norm_type: float, error_if_nonfinite: bool
    ) -> Tensor:
        """Clip this rank's parts by the norm over all of them."""
        parts = self.parts(parameters)
        total = total_norm(parts, len(parameters), norm_type, self.holders())
        return clip_norm_(parts, total, max_norm, norm_type, error_if_nonfinite)

    def clip_grad_value_(self, parameters: Sequence[Tensor], clip_value: float) -> None:
        """Clamp this rank's parts."""
        clip_value_(self.parts(parameters), clip_value)


def total_norm(parts: Sequence[Part], owners: int, norm_type: float, holders: ProcessGroup | None = None) -> Tensor:
    """Norm of the whole gradients' norms, as `torch.nn.utils.get_total_norm` defines it; 0-dim, equal on all ranks.

    Args:
        parts: this rank's.
        owners: how many parameters they are parts of.
        norm_type: order of the norm.
        holders: ranks that hold all parts between them, if not all ranks do: others hold the same.
    """
    device = state.device  # by which ranks are connected; offloaded parts lie elsewhere
    assert device is not None
    infinite = norm_type in (float("inf"), float("-inf"))
    sums = torch.zeros(owners, dtype=torch.float64, device=device)
    if norm_type == float("-inf"):
        sums += float("inf")
    for group in _by_type([part for part in parts if part.counts and part.grad.numel()]):
        norms = torch.stack(torch._foreach_norm([part.grad for part in group], norm_type)).double().to(device)
        index = sent([part.owner for part in group], device)
        if infinite:
            sums.scatter_reduce_(0, index, norms.abs(), "amax" if norm_type > 0 else "amin")
        else:
            sums.index_add_(0, index, norms.abs() ** norm_type if norm_type else norms)
    if infinite:
        all_reduce(sums, dist.ReduceOp.MAX if norm_type > 0 else dist.ReduceOp.MIN, holders)
        whole = sums
    else:
        all_reduce(sums, group=holders)
        whole = sums ** (1.0 / norm_type) if norm_type else sums
    total = torch.linalg.vector_norm(whole, norm_type) if owners else whole.sum()
    return total.to(_norm_type(parts))


def clip_norm_(
    parts: Sequence[Part], total: Tensor, max_norm: float, norm_type: float, error_if_nonfinite: bool
) -> Tensor:
    """`torch.nn.utils.clip_grad_norm_` over parts whose norm is known; returns it.

    Raises:
        RuntimeError: the norm is not finite and `error_if_nonfinite` is set; on all ranks.
    """
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for group in alike([part.grad for part in parts]):
        torch._foreach_mul_(group, factor.to(group[0].device))
    return total


def clip_value_(parts: Sequence[Part], clip_value: float) -> None:
    """Clamp each element to `[-clip_value, clip_value]`."""
    for part in parts:
        part.grad.clamp_(-clip_value, clip_value)


def scale_(parts: Iterable[Part], factor: float) -> None:
    """Multiply by a number that is equal on all ranks."""
    for group in alike([part.grad for part in parts]):
        torch._foreach_mul_(group, factor)


def _by_type(parts: Sequence[Part]) -> list[list[Part]]:
    groups: dict[Any, list[Part]] = {}
    for part in parts:
        groups.setdefault((part.grad.device, part.grad.dtype), []).append(part)
    return list(groups.values())


def _norm_type(parts: Sequence[Part]) -> torch.dtype:
    kinds = {part.grad.dtype for part in parts} or {torch.float32}
    widest = torch.float32
    for kind in kinds:
        widest = torch.promote_types(widest, kind)
    return torch.empty(0, dtype=widest).abs().dtype
