"""DeepSpeed's ZeRO stages 1 and 2: parameters whole, groups flattened, ranks own equal parts of the flat buffers."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ..state import state
from .flats import Flats, Place
from .zero import Zero
from .zero_order import Arrivals
from .zero_streams import follow


class Zero12(Zero):
    """Stage 1 collects gradients in the parameters until they are asked for, stage 2 in parts after each backward.

    DeepSpeed holds a backward's gradients in the type in which they are sent. Those of several are added in fp32.
    """

    def _flats(self) -> Flats:
        zero, places = self.zero, dict[Tensor, Place]()
        for k, group in enumerate(zero.round_robin_bit16_groups):
            size = int(zero.partition_size[k])
            for p, offset in zip(group, zero.round_robin_bit16_offsets[k], strict=True):
                pieces = []
                for rank in range(state.world_size):
                    first = min(max(offset, rank * size), offset + p.numel())
                    last = max(min(offset + p.numel(), (rank + 1) * size), first)
                    pieces.append((first - offset, first - rank * size if last > first else 0, last - first))
                places[p] = Place(k, tuple(pieces))
        self.grads: list[Tensor] = []  # like the flat buffers, after `fold`
        self.arrivals = Arrivals(zero, list(self.names)) if self.stage == 2 else None
        if self.stage == 2:
            self._epilogue, zero.independent_gradient_partition_epilogue = (
                zero.independent_gradient_partition_epilogue,
                self._end_of_backward,
            )
        return Flats(places, zero.single_partition_of_fp32_groups, self.shapes)

    def begin(self) -> None:
        if self.stage == 2 and any(held is not None for held in self.zero.all_grad_tensors.values()):
            self._take()
        super().begin()

    def end(self) -> None:
        if self.arrivals is not None:
            self.arrivals.flush()
        super().end()

    def _end_of_backward(self) -> None:
        """DeepSpeed's own waits for the GPU where reductions have a stream of their own: it need not."""
        zero = self.zero
        zero.reduce_ipg_grads()
        follow(zero.reduction_stream)
        overlaps, zero.overlap_comm = zero.overlap_comm, False
        try:
            self._epilogue()  # finds no gradient left to reduce
        finally:
            zero.overlap_comm = overlaps

    def _fold(self) -> None:
        if self.stage == 1:
            self._reduce()
            self._add_up()
            return
        by_hand = [(p, p.grad) for p in self.flats.places if p.grad is not None]
        self._take()
        for p, grad in by_hand:  # DeepSpeed takes gradients when they are computed: the script put these there
            self._piece(p).add_(self.flats.cut(p, grad))
            p.grad = None

    def _take(self) -> None:
        """Take what the backward calls have reduced."""
        self._finalize()
        self._add_up()

    def _add_up(self) -> None:
        earlier = self.grads
        self.grads = [self._flat(k) for k in range(len(self.flats.masters))]
        for grad, before in zip(self.grads, earlier):
            grad.add_(before)

    def grad(self, p: Tensor) -> Tensor | None:
        return self._piece(p) if p in self.used else None

    def _piece(self, p: Tensor) -> Tensor:
        return self.flats.part(p, self.grads[self.flats.places[p].flat])

    def _reduce(self) -> None:
        """Average what the parameters hold; a rank that did not use one that others used sends zeros."""
        zero, engine = self.zero, self.engine
        for p in self.used:
            if p.grad is None and p.grad_accum is None:  # type: ignore[attr-defined]
                p.grad = torch.zeros_like(p)
        zero.setup_buckets()
        if zero.use_grad_accum_attribute:
            zero.fill_grad_accum_attribute()
        engine._running_engine_step = True
        try:
            engine.allreduce_gradients()
        finally:
            engine._running_engine_step = False

    def _finalize(self) -> None:
        zero, kind = self.zero, self.zero.gradient_accumulation_dtype
        for k, group in enumerate(zero.params_in_partition):
            if zero.all_grad_tensors.get(k) is None and not zero._use_compact_grad_partition_buffer(k):
                zero.all_grad_tensors[k] = [torch.zeros_like(p, dtype=kind) for p in group]
        zero.finalize_gradient_accumulation_boundary()

    def _flat(self, k: int) -> Tensor:
        found = self.zero.averaged_gradients[k]
        self.zero.averaged_gradients[k] = None
        flat = getattr(found, "flat_partition", None)
        flat = torch.cat([piece.reshape(-1) for piece in found]) if flat is None else flat.view(-1)
        return flat.to(self.flats.masters[k].dtype)

    def _whole_grads(self) -> list[Tensor]:
        return self.grads

    def clear(self, parameters: Iterable[Tensor] | None = None) -> None:
        zero, places = self.zero, self.flats.places
        some = set(places if parameters is None else parameters) & places.keys()
        for p in some:
            p.grad = p.grad_accum = None  # type: ignore[attr-defined]
        if some.issuperset(self.used):
            self.grads = []
            for k in range(len(self.flats.masters)):
                zero.averaged_gradients[k] = zero.all_grad_tensors[k] = None
        else:
            for p in some:
                self._clear_piece(p)
        self.used -= some
        self.folded = False

    def _clear_piece(self, p: Tensor) -> None:
        k = self.flats.places[p].flat
        if self.grads:
            self._piece(p).zero_()
        for q, grad in zip(self.zero.params_in_partition[k], self.zero.all_grad_tensors.get(k) or ()):
            if q is p:
                grad.zero_()
        compact = getattr(self.zero.averaged_gradients.get(k), "flat_partition", None)
        if compact is not None:
            self.flats.part(p, compact.view(-1)).zero_()

    def _publish(self) -> None:
        self.zero.update_lp_params()
