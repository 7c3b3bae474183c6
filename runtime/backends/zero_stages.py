"""Where DeepSpeed's ZeRO optimizers keep parameters and gradients: stages 1 and 2, and stage 3."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from ..state import state
from .zero import Place, Zero


class Zero12(Zero):
    """Parameters whole, each group flattened; ranks own equal parts of the flat buffers."""

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
                    pieces.append((first - offset, max(first - rank * size, 0) if last > first else 0, last - first))
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
        zero, engine = self.zero, self.engine
        earlier = getattr(self, "grads", None)
        for p in self.used if self.stage == 1 else ():  # ranks that did not use it must send something too
            if p.grad is None and getattr(p, "grad_accum", None) is None:
                p.grad = torch.zeros_like(p)
        by_hand = [(p, p.grad) for p in self.places if self.stage == 2 and p.grad is not None]
        for p, _ in by_hand:
            p.grad = None
        engine._running_engine_step = True
        try:
            if self.stage == 1:
                zero.setup_buckets()
                if zero.use_grad_accum_attribute:
                    zero.fill_grad_accum_attribute()
                engine.allreduce_gradients()
            else:
                for k, group in enumerate(zero.params_in_partition):
                    if zero.all_grad_tensors.get(k) is None and not zero._use_compact_grad_partition_buffer(k):
                        kind = zero.gradient_accumulation_dtype
                        zero.all_grad_tensors[k] = [torch.zeros_like(p, dtype=kind) for p in group]
                zero.finalize_gradient_accumulation_boundary()
        finally:
            engine._running_engine_step = False
        self.grads = [self._flat(k) for k in range(len(self.masters))]
        for p, grad in by_hand:
            start, _, count = self.places[p].mine
            piece = self.part(p, self.grads[self.places[p].flat])
            piece.add_(grad.reshape(-1)[start : start + count])
        if earlier is not None:
            for grad, before in zip(self.grads, earlier, strict=True):
                grad.add_(before)

    def _flat(self, k: int) -> Tensor:
        found = self.zero.averaged_gradients[k]
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
                self._zero_piece(p)
        self.used -= some
        self.folded = False

    def _zero_piece(self, p: Tensor) -> None:
        k = self.places[p].flat
        if "grads" in self.__dict__:
            self.part(p, self.grads[k]).zero_()
        collected = self.zero.all_grad_tensors.get(k)
        if collected is not None:
            for q, grad in zip(self.zero.params_in_partition[k], collected, strict=True):
                if q is p:
                    grad.zero_()
        compact = getattr(self.zero.averaged_gradients.get(k), "flat_partition", None)
        if compact is not None:
            self.part(p, compact.view(-1)).zero_()

    def _publish(self) -> None:
        self.zero.update_lp_params()


class Zero3(Zero):
    """Parameters cut as well: each one by itself, and gathered around the modules that use it."""

    def _places(self) -> dict[Tensor, Place]:
        zero, found = self.zero, dict[Tensor, Place]()
        self.masters = list(zero.fp32_partitioned_groups_flat)
        self.buffers: dict[int, Tensor] = zero._DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition
        self.submodules = [m for module in self.modules for m in module.modules()]
        for k, group in enumerate(zero.fp16_groups):
            at = 0
            for p in group:
                size, numel = int(p.partition_numel()), int(p.ds_numel)
                starts = [min(rank * size, numel) for rank in range(state.world_size + 1)]
                pieces = [(a, at, b - a) for a, b in zip(starts, starts[1:])]
                found[p] = Place(k, tuple(pieces))
                at += size
        zero.grad_partitions_flat_buffer.zero_()
        self._gather_small()
        return found

    def _gather_small(self) -> None:
        """Small parameters stay whole on each rank; DeepSpeed gathers them at their first use in a forward."""
        if self.zero.persistent_parameters:
            self.zero.persistent_parameters[0].all_gather(self.zero.persistent_parameters)

    def begin(self) -> None:
        super().begin()
        self.zero.micro_step_id = 1  # always add: the buffers are zero when a step's first backward begins
        for module in self.submodules:  # DeepSpeed counts forwards, and would gather for no second backward
            if "applied_pre_backward_ref_cnt" in module.__dict__:
                module.applied_pre_backward_ref_cnt = 1 << 30  # type: ignore[assignment]

    def _fold(self) -> None:
        self.zero.finalize_gradient_accumulation_boundary()

    def grad(self, p: Tensor) -> Tensor | None:
        _, _, count = self.places[p].mine
        return self.buffers[p.ds_id][:count] if p in self.used else None  # type: ignore[attr-defined]

    def _hand_back(self) -> None:
        for k, group in enumerate(self.zero.fp16_groups):
            self.zero.averaged_gradients[k] = [self.buffers[p.ds_id] for p in group]

    def clear(self, parameters: Iterable[Tensor] | None = None) -> None:
        if parameters is None:
            self.zero.grad_partitions_flat_buffer.zero_()
            self.used.clear()
        else:
            for p in parameters:
                if p in self.places:
                    self.buffers[p.ds_id].zero_()  # type: ignore[attr-defined]
                    self.used.discard(p)
        for p in self.places:
            p.grad = None
        self.folded = False

    def add(self, p: Tensor, grad: Tensor) -> None:
        start, _, count = self.places[p].mine
        self.buffers[p.ds_id][:count].add_(grad.reshape(-1)[start : start + count])  # type: ignore[attr-defined]
        self._note(p)

    def _publish(self) -> None:
        zero = self.zero
        zero._partition_all_parameters()
        for k in range(len(self.masters)):
            zero._reassign_or_swap_out_partitioned_parameters(k)
        self._gather_small()

    def _read_other(self, p: Tensor) -> Tensor:
        with self.deepspeed.zero.GatheredParameters([p]):
            return p.detach().clone()

    def _write_other(self, p: Tensor, value: Tensor) -> None:
        with self.deepspeed.zero.GatheredParameters([p], modifier_rank=0), torch.no_grad():
            p.copy_(value)


def engine(stage: int, *args: Any) -> Zero:
    """An engine of this ZeRO stage, 1 to 3."""
    return (Zero3 if stage == 3 else Zero12)(*args, stage)
