"""Whole parameters on every rank; gradients are averaged as they become ready, in buckets, during the backward."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..batchnorm import share_statistics
from ..collectives import average, exchange
from ..places import caller
from ..state import DistifyError, state
from .averages import average_sparse, averages
from .buckets import Bucket, Unit, sparse_parameters
from .single import Single
from .watch import hook
from .whole_leaves import whole_on_all

BITS = 60  # units per whole number in the exchange of what a backward reached


@dataclass
class Program:
    """What is known of the backward calls at one place of the script, equal on all ranks.

    Attributes:
        reached: for each unit, whether its first run reached it on any rank.
        eager: whether buckets may be sent before the backward is over: it runs no backward inside itself, as
            reentrant checkpointing does, so that a gradient that is there is final.
    """

    reached: list[bool]
    eager: bool


class DDP(Single):
    """A reducer over post-accumulate-grad hooks, without a forward hook, so that any program of forwards and backwards
    is exact: several of each, methods, submodules, retained graphs, parameters that a rank does not use.

    A backward accumulates in `.grad` as torch does. What was there already is equal on all ranks, or the local part of
    an accumulation window; averaging leaves the first as it is and reduces the second, so nothing has to be kept
    apart. Buckets are sent in one order on all ranks, each once its last gradient is there, the rest when the backward
    is over. The first run of a backward sends everything at its end and learns which modules it reaches.
    """

    name = "ddp"

    def __init__(self) -> None:
        super().__init__()
        self.units: list[Unit] = []
        self.where: dict[Tensor, Unit] = {}
        self.programs: dict[Any, Program] = {}
        self.order: list[Bucket] = []  # buckets of the units that this backward is expected to reach
        self.sent = 0  # of `order`
        self.mode = ""  # "local", "reduce", or nothing outside of a backward
        self.eager = False
        self.touched: set[Unit] = set()
        self.task = -1  # engine's number of the backward that the first hook ran in
        self.nested = False
        self.behind: set[Tensor] = set()  # what backwards without sync may have reached, equal on all ranks
        self.local: set[Unit] = set()  # what they did reach on this rank

    def prepare(self, modules: Sequence[nn.Module], optimizers: Sequence[Optimizer]) -> None:
        """Register the hooks; parameters that two modules share belong to the first."""
        for module in modules:
            params = [p for p in module.parameters() if p not in self.where and _trainable(p)]
            if not params:
                continue
            unit = Unit(params, sparse_parameters(module))
            self.units.append(unit)
            for p in params:
                self.where[p] = unit
                hook(p, self._ready)

    def knows(self, param: Tensor) -> bool:
        """Whether the gradient of a parameter is reduced."""
        return param in self.where

    def backward(self, loss: Tensor, *, sync: bool, **options: Any) -> None:
        """Accumulate gradients; on return, if `sync`, they are the averages over ranks of all that was accumulated."""
        inputs = options.get("inputs")
        wanted = None if inputs is None else set([inputs] if isinstance(inputs, Tensor) else inputs)
        if not sync:
            self.behind.update(p for p in self.where if p.requires_grad and (wanted is None or p in wanted))
            self._run("local", loss, options)
            return
        for unit in self.units:
            unit.begin(wanted)
        if options.get("create_graph"):
            self._run("local", loss, options)
            self._average_with_graph()
            self._caught_up()
            return
        place = (caller(), *(unit.key for unit in self.units))
        program = self.programs.get(place)
        reached = [True] * len(self.units) if program is None else program.reached
        self.order = [b for unit, on in zip(self.units, reached, strict=True) if on for b in unit.buckets]
        self.sent, self.eager = 0, program is not None and program.eager
        self.task, self.nested = -1, False
        self.touched = set(self.local)
        self._run("reduce", loss, options)
        self._finish(place, program)
        self._caught_up()

    def complete(self) -> None:
        """Average what backwards without sync left: of a window cut short, or of what its last backward missed."""
        if not self.behind:
            return
        layouts = [unit.layout([p in self.behind for p in unit.params]) for unit in self.units]
        buckets = [bucket for layout in layouts for bucket in layout]
        for bucket in buckets:
            bucket.send()
        for bucket in buckets:
            bucket.finish()
        for p in [p for unit in self.units for p in unit.sparse if p in self.behind]:
            average_sparse(p)
        self.behind.clear()
        self.local.clear()

    def _caught_up(self) -> None:
        """After a backward that averaged what is trainable now, and what it was asked for."""
        if self.behind:
            self.behind.difference_update(p for unit in self.units for p in unit.active())
        if not self.behind:
            self.local.clear()

    def _run(self, mode: str, loss: Tensor, options: dict[str, Any]) -> None:
        self.mode = mode
        try:
            torch.autograd.backward(loss, **options)
        finally:
            self.mode, self.eager = "", False

    def _ready(self, param: Tensor) -> None:
        """Hook: the gradient of a parameter has been accumulated."""
        if self.mode != "reduce":
            if not self.mode and state.backend is self:
                raise DistifyError(
                    "backward() of torch ran on a prepared module: its gradients are those of this rank's rows only. "
                    "Write runtime.backward(loss) in place of loss.backward()."
                )
            self.local.add(self.where[param])
            return
        unit = self.where[param]
        bucket = unit.of.get(param)
        if bucket is None:  # sparse
            self.touched.add(unit)
            return
        if bucket.sent:
            raise DistifyError(
                "a parameter got a second gradient after the first had been sent to the other ranks: a backward runs "
                "inside this one since it last ran. Use torch.utils.checkpoint.checkpoint(…, use_reentrant=False)."
            )
        bucket.left -= 1
        self.touched.add(unit)
        task = torch._C._current_graph_task_id()
        if self.task == -1:
            self.task = task
        elif task != self.task:
            self.nested, self.eager = True, False
        if self.eager:
            while self.sent < len(self.order) and self.order[self.sent].left == 0:
                self.order[self.sent].send()
                self.sent += 1

    def _finish(self, place: Any, program: Program | None) -> None:
        """Send what is left, wait for all, and hand the averages out."""
        if program is None:
            program = self.programs[place] = self._agree()
            reached = program.reached
        else:
            for bucket in self.order[self.sent :]:
                bucket.send()
            reached = program.reached
            if not all(reached):
                reached = [on or new for on, new in zip(reached, self._agree().reached, strict=True)]
        units = [unit for unit, on in zip(self.units, reached, strict=True) if on]
        for unit in units:
            for bucket in unit.buckets:
                if not bucket.sent:
                    bucket.send()
        for unit in units:
            for bucket in unit.buckets:
                bucket.finish()
            for p in unit.sparse:
                if p.requires_grad:
                    average_sparse(p)

    def _agree(self) -> Program:
        """What this backward was on any rank."""
        masks = [0] * (-(-len(self.units) // BITS))
        for k, unit in enumerate(self.units):
            masks[k // BITS] |= (unit in self.touched) << (k % BITS)
        table = exchange([int(self.nested), *masks], room=1 + len(masks))
        reached = [any(line[1 + k // BITS] >> (k % BITS) & 1 for line in table) for k in range(len(self.units))]
        return Program(reached, not any(line[0] for line in table))

    def state_dict(self, obj: Any, host: bool = True) -> dict[str, Any]:
        """The object's own state; running statistics that differ by rank (`batchnorm="local"`) become rank 0's."""
        if isinstance(obj, nn.Module):
            share_statistics(obj)
        return super().state_dict(obj, host)

    def _average_with_graph(self) -> None:
        """Average gradients that can be differentiated again, one by one."""
        params = [p for unit in self.units for p in unit.active()]
        for p, grad in zip(params, averages(params, [p.grad for p in params]), strict=True):
            p.grad = grad

    def grad(self, outputs: Any, inputs: Any, **options: Any) -> tuple[Tensor | None, ...]:
        """`torch.autograd.grad` of global outputs with respect to parameters, or of any outputs to slices.

        Gradients of parameters, and of other tensors that are equal on all ranks, are averaged. Where the outputs came
        through a reduction, gradients of slices are held N-fold by convention, and are divided by N.
        """
        inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        state.extra["reduced"] = False
        self.takes_undefined = False  # an input without gradient is an error here
        try:
            found = list(torch.autograd.grad(outputs, inputs, **options))
        finally:
            self.takes_undefined = True
        reduced = state.extra.pop("reduced")
        ours = [k for k, x in enumerate(inputs) if x in self.where]
        for k, grad in zip(ours, averages([inputs[k] for k in ours], [found[k] for k in ours]), strict=True):
            found[k] = grad
        others = [k for k, x in enumerate(inputs) if reduced and found[k] is not None and x not in self.where]
        for k, whole in zip(others, whole_on_all([inputs[k] for k in others]), strict=True):
            found[k] = average(found[k]) if whole else found[k] / state.world_size
        return tuple(found)

    def held(self) -> Container[Tensor]:
        """All parameters of prepared modules."""
        return self.where


def _trainable(param: Tensor) -> bool:
    """Whether it can have a gradient."""
    return param.is_floating_point() or param.is_complex()
