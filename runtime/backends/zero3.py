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
from .zero3_methods import open_methods

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
        zero.grad_partitions_flat_buffer.zero_()
        self._keep_small()
        for module in self.modules:
            open_methods(module)
        return Flats(places, zero.fp32_partitioned_groups_flat, self.shapes)

    def _keep(self, parameters: Sequence[Any]) -> None:
        """Gather parameters, and keep DeepSpeed's hooks from giving them back."""
        missing = [p for p in parameters if p.ds_status.name != "AVAILABLE"]
        if missing:
            missing[0].all_gather(missing)
        for p in parameters:
            p.ds_active_sub_modules.add(KEPT)

    def _keep_small(self) -> None:
        """So that methods other than `forward` may use raw ones; DeepSpeed gives them back now and then."""
        loose = [p for module in self.modules if getattr(module, "in_use", False) for p in module.parameters()]
        self._keep([*self.zero.persistent_parameters, *loose])

    def begin(self) -> None:
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
        mine: list[Any] = [p for module in self.modules for p in module.parameters()]
        fresh = [p for p in dict.fromkeys(mine) if KEPT not in p.ds_active_sub_modules]
        self._keep(fresh)
        self.held += fresh

    def step(self) -> None:
        super().step()
        self._keep_small()

    def _fold(self) -> None:
        self.zero.finalize_gradient_accumulation_boundary()

    def grad(self, p: Tensor) -> Tensor | None:
        return self._piece(p) if p in self.used else None

    def _piece(self, p: Any) -> Tensor:
        return self.buffers[p.ds_id][: self.flats.places[p].mine[2]]

    def _hand_back(self) -> None:
        for k, group in enumerate(self.zero.fp16_groups):
            self.zero.averaged_gradients[k] = [self.buffers[p.ds_id] for p in group]

    def clear(self, parameters: Iterable[Tensor] | None = None) -> None:
        if parameters is None:
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
