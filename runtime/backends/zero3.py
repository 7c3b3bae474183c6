"""DeepSpeed's ZeRO stage 3: each parameter is cut by itself, and gathered around the modules that use it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ..state import state
from .flats import Flats, Place
from .zero import Zero
from .zero3_entry import outside, watch_entries
from .zero3_hooks import shorten
from .zero3_linear import sharpen
from .zero3_methods import open_methods
from .zero3_small import Small
from .zero_streams import follow, lead

KEPT = -1  # stands for a module among those that use a parameter at the moment
MANY = 1 << 30


class Zero3(Zero):
    """Parameters and gradients in parts; small parameters stay whole on each rank."""

    def _flats(self) -> Flats:
        zero, places = self.zero, dict[Tensor, Place]()
        self.buffers: dict[int, Tensor] = zero._DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition
        self.submodules: list[Any] = [m for module in self.modules for m in module.modules()]
        self.held: list[Any] = []
        for k, group in enumerate(zero.fp16_groups):
            at = 0
            for p in group:
                size, numel = int(p.partition_numel()), int(p.ds_numel)
                starts = [min(rank * size, numel) for rank in range(state.world_size + 1)]
                places[p] = Place(k, tuple((a, at, b - a) for a, b in pairwise(starts)))
                at += size
        small = {p for p in zero.persistent_parameters if p in places}
        self.small = Small([p for p in zero.persistent_parameters if p in small])
        self.large: list[Any] = list(dict.fromkeys(p for m in self.modules for p in m.parameters() if p not in small))
        zero.grad_partitions_flat_buffer.zero_()
        self._drive()
        self._keep_small()
        for module in self.modules:
            open_methods(module)
        return Flats(places, zero.fp32_partitioned_groups_flat, self.shapes)

    def _drive(self) -> None:
        """Take over what DeepSpeed does at the end of a backward, and with what a reduction left on this rank."""
        zero = self.zero
        sharpen()
        shorten(zero.parameter_offload)
        watch_entries(zero.parameter_offload, self.modules)
        zero.independent_gradient_partition_epilogue = self._end_of_backward
        zero.partition_grads = self._take_pieces
        zero.gradient_accumulation_dtype = zero.communication_data_type  # pieces come as they were sent
        for k, group in enumerate(self.optimizer.shadow.param_groups):
            masters = zero.fp32_partitioned_groups_flat
            group["params"] = [flat for j, flat in enumerate(masters) if zero.sub_group_to_group_id[j] == k]
        for k in range(len(zero.fp16_groups)):
            zero._unflatten_partitioned_parameters(k)  # parts of parameters are views of a buffer from now on

    def _end_of_backward(self) -> None:
        zero = self.zero
        for kind in zero.ipg_buckets:
            zero._DeepSpeedZeroOptimizer_Stage3__reduce_and_partition_ipg_grads(kind)
        follow(zero.reduce_and_partition_stream)
        zero._epilogue_ran_this_backward = True

    def _take_pieces(self, parameters: Sequence[Any], pieces: Sequence[Tensor]) -> None:
        """Add what a reduction left on this rank to the gradients: one addition for what lies side by side in both."""
        runs: list[tuple[Tensor, Tensor]] = []
        for p, piece in zip(parameters, pieces, strict=True):
            if piece.numel():
                mine, piece = self.buffers[p.ds_id][: piece.numel()], piece.view(-1)
                into, source = runs.pop() if runs else (mine[:0], piece[:0])
                if _next(into, mine) and _next(source, piece):
                    runs.append((_longer(into, mine.numel()), _longer(source, mine.numel())))
                else:
                    runs += [(into, source), (mine, piece)]
            if p.grad is not None and p.grad.is_cuda:
                p.grad.record_stream(torch.cuda.current_stream())
            p.grad = None
        for mine, piece in runs:
            mine.add_(piece)

    @outside
    def _release(self, parameters: Sequence[Any]) -> None:
        """Give back what is gathered."""
        coming = self.zero.parameter_offload.module.ds_inflight_param_registry
        for p in parameters:
            if p in coming:
                coming.pop(p).wait()
            p.ds_active_sub_modules.clear()
            if p.ds_status.name == "AVAILABLE":
                p.partition()

    @outside
    def _keep(self, parameters: Sequence[Any]) -> None:
        """Gather parameters, and keep DeepSpeed's hooks from giving them back."""
        coming = self.zero.parameter_offload.module.ds_inflight_param_registry
        for p in parameters:
            if p in coming:
                coming.pop(p).wait()
        missing = [p for p in dict.fromkeys(parameters) if p.ds_status.name != "AVAILABLE"]
        if missing:
            missing[0].all_gather_coalesced(missing).wait()
        for p in parameters:
            p.ds_active_sub_modules.add(KEPT)

    def _keep_small(self) -> None:
        """So that methods other than `forward` may use raw ones; DeepSpeed gives them back now and then."""
        loose = [p for module in self.modules if getattr(module, "in_use", False) for p in module.parameters()]
        self._keep([*self.zero.persistent_parameters, *loose])
        # The next forward gathers on a stream of its own, and reads what was written just now.
        lead(self.zero.parameter_offload._DeepSpeedZeRoOffload__allgather_stream)

    def begin(self) -> None:
        if self.graph:
            self.hold()  # no module tells when such a graph comes through it
        super().begin()
        self.zero.micro_step_id = 1  # always add: the buffers are zero when a step's first backward begins
        for module in self.submodules:  # DeepSpeed counts forwards, and would not gather for a second backward
            if "applied_pre_backward_ref_cnt" in module.__dict__:
                module.applied_pre_backward_ref_cnt = MANY

    def end(self) -> None:
        super().end()
        held, self.held = self.held, []
        for p in held:
            p.ds_active_sub_modules.discard(KEPT)
            if not p.ds_active_sub_modules:
                p.partition()

    def hold(self) -> None:
        self.graph = True
        mine: list[Any] = [p for module in self.modules for p in module.parameters()]
        fresh = [p for p in dict.fromkeys(mine) if KEPT not in p.ds_active_sub_modules]
        self._keep(fresh)
        self.held += fresh

    def _fold(self) -> None:
        """Nothing is left to do at the end of a backward."""

    def grad(self, p: Tensor) -> Tensor | None:
        return self._piece(p) if p in self.used else None

    def _piece(self, p: Any) -> Tensor:
        return self.buffers[p.ds_id][: self.flats.places[p].mine[2]]

    def _whole_grads(self) -> list[Tensor]:
        return list(self.zero.grad_partitions_flat_buffer.split([len(flat) for flat in self.flats.masters]))

    def _advance(self) -> None:
        zero = self.zero
        zero._pre_step()
        self._release(self.large)
        for part, master in zip(zero.fp16_partitioned_groups_flat, self.flats.masters, strict=True):
            part.data.copy_(master.data)
        if self.small.whole:
            self.small.refresh()
        else:
            self._release(self.small.parameters)
        self._keep_small()

    def clear(self, parameters: Iterable[Tensor] | None = None) -> None:
        if parameters is None:
            if self.used:
                self.zero.grad_partitions_flat_buffer.zero_()
            self.used.clear()
        else:
            for p in self.flats.places.keys() & set(parameters):
                self._piece(p).zero_()
                self.used.discard(p)
        for p in self.flats.places:
            p.grad = None
        self.folded = False

    def add(self, p: Tensor, grad: Tensor) -> None:
        self._piece(p).add_(self.flats.cut(p, grad))
        self._note(p)

    def _publish(self) -> None:
        zero = self.zero
        zero._partition_all_parameters()
        for k in range(len(self.flats.masters)):
            zero._reassign_or_swap_out_partitioned_parameters(k)
        self._keep_small()

    def _read_other(self, p: Tensor) -> Tensor:
        if p.ds_status.name == "AVAILABLE":  # type: ignore[attr-defined]
            return p.detach().clone()
        with self.deepspeed.zero.GatheredParameters([p]):
            return p.detach().clone()

    def _write_other(self, p: Tensor, value: Tensor) -> None:
        p.ds_active_sub_modules.discard(KEPT)  # type: ignore[attr-defined]  # `_publish` keeps it again
        with self.deepspeed.zero.GatheredParameters([p], modifier_rank=0), torch.no_grad():
            p.copy_(value)


def _next(tensor: Tensor, other: Tensor) -> bool:
    """Whether one lies directly behind another in the same memory."""
    same = tensor.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    return same and tensor.storage_offset() + tensor.numel() == other.storage_offset()


def _longer(tensor: Tensor, more: int) -> Tensor:
    """With so many of the elements behind it."""
    return tensor.as_strided((tensor.numel() + more,), (1,))
