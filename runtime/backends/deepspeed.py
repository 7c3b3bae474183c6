"""DeepSpeed's ZeRO, stages 1 to 3, driven so that a run keeps the original's arithmetic; stage 0 is plain data
parallelism, which the ddp backend does."""

from __future__ import annotations

import functools
from collections.abc import Container, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..batchnorm import share_statistics
from ..collectives import begin_backward
from ..state import DistifyError, state
from .base import Backend, group_parameters
from .ddp import DDP
from .deepspeed_check import check, engines_of
from .deepspeed_load import load
from .engine_pieces import engine_pieces, load_engine_pieces
from .gathered import Pending, gathered
from .inner import inner_grad
from .managed import clears_all, clears_parts, copies_whole, keeps_type, roots, stand_in
from .meta import load_through_meta
from .norms import join_casts
from .opened import opened_engines
from .outputs import watch_outputs
from .parts import Part, PartedGradients
from .watch import Watch
from .whole_state import gather_all, module_state
from .zero import Zero
from .zero3 import Zero3
from .zero12 import Zero12


def make() -> Backend:
    """The backend of this run's ZeRO stage. Stage 0 cuts nothing: it is ddp, which needs no engine."""
    assert state.config is not None
    return DeepSpeed() if state.config.zero_stage else DDP()


class DeepSpeed(PartedGradients):
    """DeepSpeed behind the protocol: an engine for each optimizer and the modules that it updates.

    Gradients are reduced during each backward (stages 2, 3) or when they are first asked for (stage 1); `.grad` of the
    parameters does not show them.
    """

    name = "deepspeed"

    def __init__(self) -> None:
        self.deepspeed = load()
        self.engines: list[Zero] = []
        self.of: dict[Tensor, Zero] = {}
        self.by_optimizer: dict[Optimizer, Zero] = {}
        self.opened: set[Tensor] = set()  # parameters that hold their whole values at the moment
        self.pending = Pending()
        self.watch = Watch(self.name)
        assert state.config is not None
        assert state.precision is not None
        self.stage, self.dtype = state.config.zero_stage, state.precision.dtype

    def prepare(self, modules: Sequence[nn.Module], optimizers: Sequence[Optimizer]) -> None:
        """Build the engines; modules and optimizers stay the user's own.

        Raises:
            DistifyError: an optimizer can't work on parts, or modules and optimizers don't pair up.
        """
        given = {getattr(module, "_orig_mod", module): module for module in modules}  # hooks go into what is compiled
        modules = roots(list(given))
        check(modules, optimizers, self.of)
        for owned, optimizer in engines_of(modules, optimizers):
            made = (Zero3 if self.stage == 3 else Zero12)(self.deepspeed, owned, optimizer, self.stage, self.watch)
            self.engines.append(made)
            self.by_optimizer[optimizer] = made
            for module in owned:
                self.of.update(dict.fromkeys(module.parameters(), made))
                copies_whole(module, self)
                keeps_type(module, self.name)
                watch_outputs(module, given[module])
                clears_parts(module, self)
                if self.dtype is not None:
                    if self.stage == 3:  # for memory: a node in Python costs the host more than those that it saves
                        join_casts(module)
                    _autocasts(module)
            clears_all(optimizer, functools.partial(group_parameters, optimizer), self)

    def backward(self, loss: Tensor, *, sync: bool, **options: Any) -> None:
        """Accumulate gradients; they are complete when they are clipped, unscaled or stepped with."""
        if options.get("create_graph"):
            raise DistifyError(
                "runtime.backward(create_graph=True) can't be differentiated again under deepspeed, where gradients "
                "are reduced to parts. Write runtime.grad(outputs, inputs, create_graph=True), or use backend='ddp'."
            )
        begin_backward()
        for one in self.engines:
            one.begin()
        try:
            with self.watch.own():
                torch.autograd.backward(loss, **options)
            for one in self.engines:
                one.end()
        except (AssertionError, AttributeError) as error:
            if not _of_deepspeed(error):
                raise
            raise DistifyError(  # its hooks met a gradient twice, or none
                "DeepSpeed's gradient hooks failed. They can't reduce gradients that come in pieces, as "
                "torch.utils.checkpoint.checkpoint(…, use_reentrant=True) makes them: pass use_reentrant=False, or use "
                "backend='fsdp'."
            ) from error
        begin_backward()  # torch.autograd.grad after it begins afresh
        if sync:
            self._reduce()

    def complete(self) -> None:
        """Reduce what backwards without sync left of gathered parameters; the engines keep count of the rest."""
        self._reduce()

    def _reduce(self) -> None:
        self.pending.reduce(lambda p, grad: self.of[p].add(p, grad))

    def grad(self, outputs: Any, inputs: Any, **options: Any) -> tuple[Tensor | None, ...]:
        """`torch.autograd.grad`; parameters are gathered for each backward after it if the gradients have a graph."""
        for one in self.engines:
            if options.get("create_graph") or one.graph:
                one.hold()
        wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        return tuple(inner_grad(outputs, wanted, lambda x: x in self.of, **options))

    def forget(self, parameters: Sequence[Tensor], zero: bool = False) -> None:
        """Drop what was accumulated for these parameters, or make it zero."""
        for p in parameters:
            self.pending.drop(p)
        for one in self.engines:
            mine = {p for p in parameters if self.of.get(p) is one}
            if mine:
                one.forget(mine, zero)

    def parts(self, parameters: Iterable[Tensor]) -> list[Part]:
        """This rank's parts of the gradients of these parameters; a collective."""
        parameters = list(parameters)
        for one in self.engines:
            if any(self.of.get(p) is one for p in parameters):
                one.fold()
        found = []
        for k, p in enumerate(parameters):
            owner = self.of.get(p)
            grad = owner.grad(p) if owner is not None and p in owner else None
            if grad is not None:
                found.append(Part(grad, k))
        return found

    def step(self, optimizer: Optimizer, closure: Any = None) -> Any:
        """One step on this rank's parts."""
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        engine = self.by_optimizer[optimizer]
        if engine.left.intersection(group_parameters(optimizer)):
            raise DistifyError(
                "runtime.step() with backend 'deepspeed': the gradients of the step before were not cleared. In torch "
                "they would be added to; DeepSpeed drops them with each step. Call optimizer.zero_grad() between two "
                "steps (setting .grad to None is not seen), or use backend='fsdp'."
            )
        engine.step()
        return result

    def full(self, parameter: Tensor) -> Tensor:
        """The whole parameter; with ZeRO 3 its gradient is averaged over ranks when the backward is over."""
        owner = self.of.get(parameter)
        if owner is None or parameter in self.opened:
            return parameter
        if self.stage == 3:
            return gathered(parameter, owner.whole(parameter), self.pending)
        return parameter.to(owner.dtypes[parameter])

    def open(self, modules: Sequence[nn.Module], grads: bool) -> AbstractContextManager[None]:
        """Whole parameters in their own place, for as long as the context lasts."""
        return opened_engines(self, modules, grads)

    def state_dict(self, obj: Any, host: bool = True) -> dict[str, Any]:
        """A snapshot in the original's form, whole, on all ranks."""
        if isinstance(obj, nn.Module):
            if not any(p in self.of for p in obj.parameters()):
                share_statistics(obj)
                return obj.state_dict()
            return module_state(obj, functools.partial(self._copy, host=host))
        if isinstance(obj, Optimizer) and obj in self.by_optimizer:
            found = obj.state_dict()
            states = self.by_optimizer[obj].optimizer.states()
            found["state"] = {k: states[p] for k, p in enumerate(group_parameters(obj)) if p in states}
            return found
        whole: dict[str, Any] = gather_all(obj.state_dict())
        return whole

    def _copy(self, parameter: Tensor, host: bool) -> Tensor:
        """A new tensor with the whole of a parameter, on the CPU or its device."""
        if parameter not in self.of:
            return parameter.detach().clone()
        whole = self.of[parameter].whole(parameter)
        return whole.cpu() if host else whole.to(parameter.device)

    def load_state_dict(self, obj: Any, state: dict[str, Any], **options: Any) -> Any:
        """Load whole tensors."""
        if isinstance(obj, nn.Module) and any(p in self.of for p in obj.parameters()):
            result, values = load_through_meta(obj, state, {p: e.shapes[p] for p, e in self.of.items()}, **options)
            for one in self.engines:
                mine = {p: value for p, value in values.items() if self.of.get(p) is one}
                if mine:
                    one.write(mine)
            return result
        if isinstance(obj, Optimizer) and obj in self.by_optimizer:
            obj.load_state_dict({**state, "state": {}})
            parameters = group_parameters(obj)
            states = {parameters[k]: found for k, found in state["state"].items()}
            return self.by_optimizer[obj].optimizer.load(states)
        return obj.load_state_dict(state, **options)

    def in_parts(self, obj: Any) -> dict[str, Any]:
        """What the engines hold as pieces that share its memory; what they leave whole as copies."""
        if isinstance(obj, nn.Module):
            return engine_pieces(obj, self.of, lambda p: self._copy(p, host=True))
        found: dict[str, Any] = obj.state_dict()
        if obj in self.by_optimizer:
            states = self.by_optimizer[obj].optimizer.pieces()
            found["state"] = {k: states[p] for k, p in enumerate(group_parameters(obj)) if p in states}
        return found

    def room(self, optimizer: Optimizer, parameter: Tensor, shape: torch.Size, dtype: torch.dtype) -> Any:
        """A part for state that has the shape of a parameter which is cut."""
        engine = self.by_optimizer.get(optimizer)
        if engine is None or parameter not in engine or not shape or shape != engine.shapes[parameter]:
            return None
        return engine.flats.room(parameter, dtype)

    def load_parts(self, obj: Any, state: dict[str, Any]) -> None:
        """Bring the models to what was read into the flat buffers, and load the rest."""
        if isinstance(obj, nn.Module):
            load_engine_pieces(obj, state, self.of, self.engines)
        else:
            self.load_state_dict(obj, state)

    def held(self) -> Container[Tensor]:
        """All parameters of the engines."""
        return self.of

    def cuts(self, item: Tensor | Optimizer) -> bool:
        """Whether a parameter, or what an optimizer holds, lies in parts."""
        return item in self.by_optimizer if isinstance(item, Optimizer) else item in self.of

    def whole(self, tensor: Tensor) -> Tensor:
        """A new tensor with the whole values; a collective."""
        return self.of[tensor].whole(tensor) if tensor in self.of else tensor.detach().clone()


def _of_deepspeed(error: BaseException) -> bool:
    """Whether an error was raised in DeepSpeed's code."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith("deepspeed.")


def _autocasts(module: nn.Module) -> None:
    """Weights are in the reduced type, so a forward outside of `runtime.autocast()` must not see fp32 inputs bare."""
    original = module.forward

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        assert state.precision is not None
        assert state.device is not None
        if torch.is_autocast_enabled(state.device.type):
            return original(*args, **kwargs)
        with state.precision.autocast():
            return original(*args, **kwargs)

    stand_in(module, "forward", forward)
