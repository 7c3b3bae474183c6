"""Gradients of a module in flat buffers, and the collectives that average them over ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..lost import reach
from ..state import state

FIRST = 1 << 20  # bytes of the first bucket: it is ready while most of the backward is still to come
REST = 25 << 20


class Bucket:
    """Parameters of one device and type whose gradients travel together.

    The buffer holds the gradients and, behind them, one number per parameter that tells whether any rank used it. It
    is made anew for each reduction and lives as long as the gradients, which are views of it: nothing that a script
    keeps of an earlier gradient is overwritten.

    Attributes:
        params: in the order of their values in the buffer.
        left: parameters whose gradient is not there yet.
        sent: whether the buffer is on its way.
    """

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.params = list(params)
        self.size = sum(p.numel() for p in params)
        self.starts = [sum(p.numel() for p in params[:k]) for k in range(len(params))]
        self.strided = [k for k, p in enumerate(params) if not p.is_contiguous() and _dense(p)]
        self.left = len(self.params)
        self.sent = False
        self.missing: list[int] = []
        self.flat: Tensor | None = None
        self.work: Any = None

    def begin(self) -> None:
        """Forget the last reduction."""
        self.left, self.sent, self.flat, self.work = len(self.params), False, None, None

    def send(self) -> None:
        """Start averaging what the parameters' `.grad` hold now; `.grad` is empty until `finish`."""
        grads = [g.to_dense() if g is not None and g.is_sparse else g for g in (p.grad for p in self.params)]
        self.missing = [k for k, grad in enumerate(grads) if grad is None]
        self.flat = self._shared(grads)
        if self.flat is None:
            self.flat = torch.empty(self.size + len(grads), dtype=self.params[0].dtype, device=self.params[0].device)
            views = self._views()
            if len(self.missing) < len(grads):
                torch._foreach_copy_([views[k] for k, g in enumerate(grads) if g is not None], _present(grads))
            for k in self.missing:
                views[k].zero_()
        self.flat[self.size :].fill_(1.0)
        for k in self.missing:
            self.flat[self.size + k] = 0.0
        for p in self.params:
            p.grad = None
        self.sent = True
        self.work = self._reduce()

    def _reduce(self) -> Any:
        assert self.flat is not None
        flat = torch.view_as_real(self.flat) if self.flat.is_complex() else self.flat
        if flat.is_cuda:
            return reach(dist.all_reduce, flat, op=dist.ReduceOp.AVG, async_op=True)
        flat.div_(state.world_size)
        return reach(dist.all_reduce, flat, async_op=True)

    def finish(self) -> None:
        """Wait for the averages and make them the gradients; `None` stays where no rank used a parameter."""
        assert self.flat is not None
        reach(self.work.wait)
        unused = set()
        if self.missing:  # only then is the flag's value needed on the host
            flags = torch.view_as_real(self.flat)[self.size :, 0] if self.flat.is_complex() else self.flat[self.size :]
            used = flags.tolist()
            unused = {k for k in self.missing if not used[k] > 0}
        for k, (p, view) in enumerate(zip(self.params, self._views(), strict=True)):
            p.grad = None if k in unused else view
        self.flat = self.work = None

    def _views(self) -> list[Tensor]:
        """The buffer's part of each parameter, in its shape and memory layout."""
        assert self.flat is not None
        views: list[Tensor] = list(torch._C._nn.unflatten_dense_tensors(self.flat, self.params))
        for k in self.strided:
            p = self.params[k]
            views[k] = self.flat.as_strided(p.size(), p.stride(), self.starts[k])
        return views

    def _shared(self, grads: Sequence[Tensor | None]) -> Tensor | None:
        """The buffer of an earlier reduction if all gradients are its views still: accumulated in place, no copy."""
        base = None if grads[0] is None else grads[0]._base
        if base is None or base.dim() != 1 or base.numel() != self.size + len(grads):
            return None
        for start, grad, p in zip(self.starts, grads, self.params, strict=True):
            if grad is None or grad._base is not base or grad.storage_offset() != start or grad.stride() != p.stride():
                return None
        return base


class Unit:
    """All parameters of one prepared module, cut into buckets for those that are trained at the moment.

    Args:
        params: floating-point parameters in the module's order; frozen ones too, they may be thawed.
        sparse: those whose gradients are sparse.
    """

    def __init__(self, params: Sequence[Tensor], sparse: Iterable[Tensor]) -> None:
        self.params = list(params)
        self.sparse = [p for p in self.params if any(p is s for s in sparse)]
        self.layouts: dict[tuple[bool, ...], list[Bucket]] = {}
        self.key: tuple[bool, ...] = ()
        self.buckets: list[Bucket] = []
        self.of: dict[Tensor, Bucket] = {}

    def begin(self, wanted: set[Tensor] | None) -> None:
        """Prepare for a backward that reaches the trainable parameters, or those of them that are wanted."""
        key = tuple(p.requires_grad and (wanted is None or p in wanted) for p in self.params)
        if key != self.key or not self.layouts:
            if key not in self.layouts:
                if len(self.layouts) >= 8:
                    self.layouts.clear()
                self.layouts[key] = self.layout(key)
            self.key, self.buckets = key, self.layouts[key]
            self.of = {p: bucket for bucket in self.buckets for p in bucket.params}
        for bucket in self.buckets:
            bucket.begin()

    def active(self) -> list[Tensor]:
        """Parameters that the backward may reach."""
        return [p for p, on in zip(self.params, self.key, strict=True) if on]

    def layout(self, key: Sequence[bool]) -> list[Bucket]:
        """Buckets of some parameters in reverse order, about the order in which gradients become ready."""
        apart = {id(p) for p in self.sparse}
        open_: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        filled: dict[tuple[torch.device, torch.dtype], int] = {}
        buckets: list[Bucket] = []
        for p, on in zip(reversed(self.params), reversed(key), strict=True):
            if not on or id(p) in apart:
                continue
            kind = (p.device, p.dtype)
            size = p.numel() * p.element_size()
            limit = REST if buckets else FIRST
            if kind in open_ and filled[kind] + size > limit:
                buckets.append(Bucket(open_.pop(kind)))
                filled[kind] = 0
            open_.setdefault(kind, []).append(p)
            filled[kind] = filled.get(kind, 0) + size
        buckets += [Bucket(group) for group in open_.values()]
        return buckets


def sparse_parameters(module: nn.Module) -> list[Tensor]:
    """Parameters whose gradients are sparse: weights of embeddings that were built with `sparse=True`."""
    kinds = (nn.Embedding, nn.EmbeddingBag)
    return [m.weight for m in module.modules() if isinstance(m, kinds) and m.sparse]


def _present(grads: Sequence[Tensor | None]) -> list[Tensor]:
    return [grad for grad in grads if grad is not None]


def _dense(p: Tensor) -> bool:
    """Whether a non-contiguous tensor fills its memory, as channels-last weights do."""
    order = sorted(range(p.dim()), key=lambda k: p.stride(k))
    expected = 1
    for k in order:
        if p.shape[k] == 1:
            continue
        if p.stride(k) != expected:
            return False
        expected *= p.shape[k]
    return True
