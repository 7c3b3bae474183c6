"""Gradients averaged outside of the buckets: one by one, with a graph of their own, or sparse."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from ..collectives import all_reduce, average, exchange, own
from ..lost import reach
from ..state import state


def averages(params: Sequence[Tensor], grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Gradients averaged over ranks, `None` where no rank has one; differentiable on all ranks if on any."""
    if not params:
        return []
    marks = [[float(g is not None), float(g is not None and g.requires_grad)] for g in grads]
    anywhere = all_reduce(torch.tensor(marks, device=state.device)).tolist()
    found: list[Tensor | None] = []
    for p, grad, (present, graph) in zip(params, grads, anywhere, strict=True):
        if grad is None:
            grad = torch.zeros_like(p) if present else None
        if grad is not None and graph and not grad.requires_grad:
            grad = own(grad.detach().requires_grad_())
        found.append(None if grad is None else average(grad))
    return found


def average_sparse(param: Tensor) -> None:
    """Average a sparse gradient over ranks; `None` stays where no rank has one."""
    grad = param.grad
    if grad is None:
        grad = torch.zeros_like(param)
    grad = (grad if grad.is_sparse else grad.to_sparse(1)).coalesce()
    counts = exchange([grad._nnz(), int(param.grad is not None)])
    if not any(present for _, present, *_ in counts):
        return
    most = max(count for count, *_ in counts)
    indices = grad.indices().new_zeros((1, most))
    values = grad.values().new_zeros((most, *param.shape[1:]))
    indices[:, : grad._nnz()], values[: grad._nnz()] = grad.indices(), grad.values()
    all_indices = [torch.empty_like(indices) for _ in counts]
    all_values = [torch.empty_like(values) for _ in counts]
    reach(dist.all_gather, all_indices, indices)
    reach(dist.all_gather, all_values, values)
    whole = torch.sparse_coo_tensor(
        torch.cat([i[:, :count] for i, (count, *_) in zip(all_indices, counts, strict=True)], 1),
        torch.cat([v[:count] for v, (count, *_) in zip(all_values, counts, strict=True)]) / len(counts),
        param.shape,
    )
    param.grad = whole.coalesce()
