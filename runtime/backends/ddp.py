"""Whole parameters on every rank; gradients are averaged as they become ready, in buckets, during the backward."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..batchnorm import share_statistics
from ..collectives import all_reduce, average, exchange
from ..state import DistifyError, state
from .buckets import Bucket, Unit, average_sparse, sparse_parameters
from .single import Single

PACKAGE = __name__.rsplit(".", 2)[0]
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
                _hook(p, self._ready)

    def backward(self, loss: Tensor, *, sync: bool, **options: Any) -> None:
        """Accumulate gradients; on return, if `sync`, they are the averages over ranks of all that was accumulated."""
        if not sync:
            self._run("local", loss, options)
            return
        inputs = options.get("inputs")
        wanted = None if inputs is None else set([inputs] if isinstance(inputs, Tensor) else inputs)
        for unit in self.units:
            unit.begin(wanted)
        if options.get("create_graph"):
            self._run("local", loss, options)
            self._average_with_graph()
            return
        place = (_caller(), *(unit.key for unit in self.units))
        program = self.programs.get(place)
        reached = [True] * len(self.units) if program is None else program.reached
        self.order = [b for unit, on in zip(self.units, reached, strict=True) if on for b in unit.buckets]
        self.sent, self.eager = 0, program is not None and program.eager
        self.task, self.nested = -1, False
        self.touched.clear()
        self._run("reduce", loss, options)
        self._finish(place, program)

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
            return
        unit = self.where[param]
        bucket = unit.of.get(param)
        if bucket is None:  # sparse, or thawed while the backward ran
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
            reached, nested = self._agree()
            program = self.programs[place] = Program(reached, not nested)
            units = [unit for unit, on in zip(self.units, reached, strict=True) if on]
        else:
            for bucket in self.order[self.sent :]:
                bucket.send()
            units = [unit for unit, on in zip(self.units, program.reached, strict=True) if on]
            if len(units) < len(self.units):
                also, _ = self._agree()
                units = [u for u, on, new in zip(self.units, program.reached, also, strict=True) if on or new]
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

    def _agree(self) -> tuple[list[bool], bool]:
        """For each unit whether any rank reached it, and whether a backward ran inside this one on any rank."""
        masks = [0] * (-(-len(self.units) // BITS))
        for k, unit in enumerate(self.units):
            masks[k // BITS] |= (unit in self.touched) << (k % BITS)
        table = exchange([int(self.nested), *masks], room=1 + len(masks))
        reached = [any(line[1 + k // BITS] >> (k % BITS) & 1 for line in table) for k in range(len(self.units))]
        return reached, any(line[0] for line in table)

    def state_dict(self, obj: Any) -> dict[str, Any]:
        """The object's own state; running statistics that differ by rank (`batchnorm="local"`) become rank 0's."""
        if isinstance(obj, nn.Module):
            share_statistics(obj)
        return super().state_dict(obj)

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
        for k, (x, grad) in enumerate(zip(inputs, found, strict=True)):
            if reduced and grad is not None and x not in self.where:
                found[k] = average(grad) if replicated(x) else grad / state.world_size
        return tuple(found)


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
            grad = grad.detach().requires_grad_()
        found.append(None if grad is None else average(grad))
    return found


def replicated(x: Tensor) -> bool:
    """Whether a tensor holds the same values on all ranks, told by its size and two sums over its elements."""
    flat = x.detach().reshape(-1)
    flat = (torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat).double()
    weights = torch.arange(flat.numel(), device=x.device, dtype=torch.float64).add_(1.0).sqrt_()
    marks = torch.stack([flat.new_tensor(float(flat.numel())), flat.sum(), (flat * weights).sum()])
    low_high = torch.cat([marks, -marks])
    all_reduce(low_high, torch.distributed.ReduceOp.MAX)
    return bool((low_high[:3] == -low_high[3:]).all())


def _trainable(param: Tensor) -> bool:
    """Whether it can have a gradient."""
    return param.is_floating_point() or param.is_complex()


def _hook(param: Tensor, function: Callable[[Tensor], None]) -> None:
    """Register the hook on a frozen parameter too: it may be thawed later."""
    trains = param.requires_grad
    param.requires_grad_(True)
    param.register_post_accumulate_grad_hook(function)  # type: ignore[no-untyped-call]
    param.requires_grad_(trains)


def _caller() -> tuple[CodeType, int] | None:
    """The place in the script that called into the runtime."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else (frame.f_code, frame.f_lineno)
