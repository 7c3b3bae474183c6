"""DeepSpeed's ZeRO stages 1 and 2: parameters whole, each group flattened, ranks own equal parts of the flat buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ..state import state
from .zero import Place, Zero


class Zero12(Zero):
    """Stage 1 collects gradients in the parameters until they are asked for, stage 2 in parts after each backward."""

    def _places(self) -> dict[Tensor, Place]:
        zero, found = self.zero, dict[Tensor, Place]()
        self.masters = list(zero.single_partition_of_fp32_groups)
        for k, group in enumerate(zero.round_robin_bit16_groups):
            size = int(zero.partition_size[k])
            for p, offset in zip(group, zero.round_robin_bit16_offsets[k], strict=True):
                pieces = []
                for rank in range(state.world_size):
                    first = min(max(offset, rank * size), offset + p.numel())
                    last = max(min(offset + p.numel(), (rank + 1) * size), first)
                    pieces.append((first - offset, first - rank * size if last > first else 0, last - first))
                found[p] = Place(k, tuple(pieces))
        self.arrived: set[Tensor] = set()
        if self.stage == 2:
            self.order = [(p, k) for k, group in enumerate(zero.bit16_groups) for p in group][::-1]
            self.sent = 0
            self.send, zero.process_gradients = zero.process_gradients, self._arrive
        return found

    def _arrive(self, p: Tensor, k: int) -> None:
        """A gradient is complete. DeepSpeed would put it into its bucket at once, in an order that can differ by rank.

        (A recurrent layer over one time step hands its gradients over in another order than over two.)
        """
        self.arrived.add(p)
        self._send(lambda p: p in self.arrived)

    def _send(self, ready: Callable[[Tensor], bool]) -> None:
        while self.sent < len(self.order) and (ready(self.order[self.sent][0]) or not self._trains(self.sent)):
            if self._trains(self.sent):
                self.send(*self.order[self.sent])
            self.sent += 1

    def _trains(self, number: int) -> bool:
        return self.order[number][0].requires_grad

    def end(self) -> None:
        if self.arrived:  # another rank may have used what this one did not: all send all, in one order
            for p, _ in self.order[self.sent :]:
                if p.requires_grad and p not in self.arrived and p.grad is None:
                    p.grad = torch.zeros_like(p)
            self._send(lambda p: True)
            self.arrived.clear()
            self.sent = 0
        super().end()

    def _fold(self) -> None:
        earlier = self.__dict__.pop("grads", None)
        by_hand: list[tuple[Tensor, Tensor]] = []
        if self.stage == 1:
            self._reduce()
        else:
            by_hand = [(p, p.grad) for p in self.places if p.grad is not None]
            self._finalize()
        self.grads = [self._flat(k) for k in range(len(self.masters))]
        for p, grad in by_hand:  # DeepSpeed takes gradients when they are computed: the script put these there
            start, _, count = self.places[p].mine
            self.part(p, self.grads[self.places[p].flat]).add_(grad.reshape(-1)[start : start + count])
            p.grad = None
        for grad, before in zip(self.grads, earlier or ()):
            grad.add_(before)

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
        """Take what the backward calls have reduced."""
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
        return flat.to(self.masters[k].dtype)

    def _hand_back(self) -> None:
        for k, flat in enumerate(self.grads):
            self.zero.averaged_gradients[k] = [flat]

    def clear(self, parameters: Iterable[Tensor] | None = None) -> None:
        zero = self.zero
        some = set(self.places if parameters is None else parameters)
        for p in self.places:
            if p in some:
                p.grad = p.grad_accum = None  # type: ignore[attr-defined]
        if some.issuperset(self.used):
            self.__dict__.pop("grads", None)
            for k in range(len(self.masters)):
                zero.averaged_gradients[k] = zero.all_grad_tensors[k] = None
        else:
            for p in some & self.places.keys():
                self._clear_piece(p)
        self.used -= some
        self.folded = False

    def _clear_piece(self, p: Tensor) -> None:
        k = self.places[p].flat
        if "grads" in self.__dict__:
            self.part(p, self.grads[k]).zero_()
        for q, grad in zip(self.zero.params_in_partition[k], self.zero.all_grad_tensors.get(k) or ()):
            if q is p:
                grad.zero_()
        compact = getattr(self.zero.averaged_gradients.get(k), "flat_partition", None)
        if compact is not None:
            self.part(p, compact.view(-1)).zero_()

    def _publish(self) -> None:
        self.zero.update_lp_params()
