"""DeepSpeed's hooks around the modules of a ZeRO 3 model, with a short way for what they mostly meet.

Before and after each module's forward and backward DeepSpeed gathers the module's parameters or gives them back. Mostly
they are there already and stay, and all that is left is to count: DeepSpeed's way takes some hundred calls of Python to
find that out, about half of the host's time of a step. What does gather, or give back, goes DeepSpeed's way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from ..state import state

PREFIX = "_PartitionedParameterCoordinator__"
STEP, ORDER, QUEUE, MODE, RECENT, COMING, RUNNING = (
    PREFIX + name
    for name in (
        "step_id",
        "submodule_order",
        "param_queue",
        "trace_mode",
        "most_recent_step_id_param_fetched_for",
        "inflight_param_registry",
        "active_backward_submodules",
    )
)
NEEDED = (STEP, ORDER, QUEUE, MODE, RECENT, COMING, RUNNING)


def shorten(offload: Any) -> None:
    """Put the short ways in the places of DeepSpeed's, if it keeps count as they expect.

    Args:
        offload: what DeepSpeed's optimizer drives the gathering with.
    """
    coordinator = offload.get_param_coordinator()
    leaf: Callable[[nn.Module], bool] = import_module("deepspeed.utils.z3_leaf_module").z3_leaf_module
    if any(leaf(module) for module in offload.module.modules()):  # several threads may gather for such a module
        return
    if getattr(offload, "zenflow", True) or vars(coordinator).get(PREFIX + "prefetch_nvme", True):
        return
    if not all(name in vars(coordinator) for name in NEEDED):
        return
    ways = Ways(coordinator)
    offload.pre_sub_module_forward_function = ways.before_forward
    offload.post_sub_module_forward_function = partial(ways.release, forward=True)
    offload.pre_sub_module_backward_function = partial(ways.fetch, forward=False)
    offload.post_sub_module_backward_function = partial(ways.release, forward=False)
    for module in offload.module.modules():
        held = vars(module)
        if "pre_bwd_fn" in held and "post_bwd_fn" in held:
            held["pre_bwd_fn"] = Around(partial(_before, offload, module), held["pre_bwd_fn"])
            held["post_bwd_fn"] = Around(partial(_after, offload, module), held["post_bwd_fn"])


class Ways:
    """What happens around a module.

    Args:
        coordinator: DeepSpeed's, which knows the order of a step from the one before.
    """

    def __init__(self, coordinator: Any) -> None:
        self.coordinator, self.counts = coordinator, vars(coordinator)
        zero: Any = import_module("deepspeed.runtime.zero.partition_parameters")
        self.available: Any = zero.ZeroParamStatus.AVAILABLE
        tracing: Any = import_module("deepspeed.runtime.zero.partitioned_param_coordinator")
        self.complete: Any = tracing.ZeRoTraceMode.COMPLETE
        self.entered: list[nn.Module] = import_module("deepspeed.runtime.zero.parameter_offload").FWD_MODULE_STACK
        self.to_release = getattr(coordinator, PREFIX + "params_to_release")
        self.release_one = getattr(coordinator, PREFIX + "release_param")
        self.follows: Any = None  # the stream that waited for all that was gathered

    def before_forward(self, module: nn.Module) -> None:
        """Before a module's forward."""
        self.entered.append(module)
        self.fetch(module, forward=True)

    def fetch(self, module: nn.Module, forward: bool) -> None:
        """Have a module's parameters here."""
        parameters = _parameters(module)
        if not self._is_next(module) or not self._here(parameters, forward):
            self._fetch(module, forward)
            return
        name = module.ds_id
        if not forward:
            self.counts[RUNNING][name] = module
        for p in parameters:
            p.ds_active_sub_modules.add(name)
        self.counts[STEP] += 1

    def _fetch(self, module: nn.Module, forward: bool) -> None:
        """DeepSpeed's way."""
        coordinator = self.coordinator
        with torch.no_grad():
            coordinator.trace_prologue(module)
            if coordinator.is_record_trace():
                coordinator.record_module(module)
            coordinator.fetch_sub_module(module, forward=forward)
        self.follows = _stream()

    def _is_next(self, module: nn.Module) -> bool:
        """Whether this step goes as the one before, and nothing is left to be gathered ahead."""
        counts = self.counts
        if counts[MODE] is not self.complete or counts[QUEUE]:
            return False
        order, step = counts[ORDER], counts[STEP]
        return step < len(order) and order[step] is module

    def _here(self, parameters: list[Any], forward: bool) -> bool:
        """Whether a module's parameters are here, and have been counted as gathered for this use."""
        if forward and torch._C._current_graph_task_id() != -1:  # activations are being recomputed
            return False
        recent, coming, step = self.counts[RECENT], self.counts[COMING], self.counts[STEP]
        for p in parameters:
            if p.ds_status is not self.available or (coming and p in coming) or recent[p] < step:
                return False
        return bool(_stream() == self.follows)

    def release(self, module: nn.Module, forward: bool) -> None:
        """Give back what is not used again soon."""
        if self.counts[MODE] is not self.complete or module.ds_recompute_parameters:
            with torch.no_grad():
                self.coordinator.release_sub_module(module, forward=forward)
            return
        going, name = self.to_release(module, self.counts[STEP]), module.ds_id
        if not forward:
            self.counts[RUNNING].pop(name, None)
        for p in _parameters(module):
            p.ds_active_sub_modules.discard(name)
            if p.ds_id in going and not p.is_external_param:
                with torch.no_grad():
                    self.release_one(p, True)


class Around:
    """Stands for a function of DeepSpeed's around a module: calls something when a gradient passes.

    Args:
        mark: makes the tensor whose gradient is watched.
        theirs: DeepSpeed's function, for transforms of `torch.func`.
    """

    def __init__(self, mark: Callable[[Tensor], Tensor], theirs: Any) -> None:
        self.mark, self.theirs = mark, theirs

    def apply(self, tensor: Tensor) -> Tensor:
        """An input or output of the module, marked."""
        if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
            marked: Tensor = self.theirs.apply(tensor)
            return marked
        if not (tensor.requires_grad and torch.is_grad_enabled()):
            return tensor
        return self.mark(tensor)


def _before(offload: Any, module: nn.Module, output: Tensor) -> Tensor:
    """Mark an output: its gradient comes before the module's backward."""
    return _Passing.apply(output, partial(offload.pre_sub_module_backward_function, module))  # type: ignore[no-any-return, no-untyped-call]


def _after(offload: Any, module: nn.Module, input: Tensor) -> Tensor:
    """Mark an input: when the gradients of all have come, the module's backward is over."""
    held = vars(module)
    held["ds_grads_remaining"] += 1

    def passed() -> None:
        held["ds_grads_remaining"] -= 1
        if held["ds_grads_remaining"] == 0:
            offload.post_sub_module_backward_function(module)

    return _Passing.apply(input, passed)  # type: ignore[no-any-return, no-untyped-call]


class _Passing(torch.autograd.Function):
    """The same values; tells when their gradient comes."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, passed: Callable[[], None]) -> Tensor:
        ctx.passed = passed
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        ctx.passed()
        return grad, None


def _parameters(module: nn.Module) -> list[Any]:
    """A module's own parameters, and those of others that DeepSpeed saw it use."""
    found = [p for p in dict.values(module._parameters) if p is not None]
    others = vars(module).get("_external_params")
    if others:
        found += [p for p in others.values() if all(p is not q for q in found)]
    return found


def _stream() -> Any:
    return torch.cuda.current_stream() if state.device is not None and state.device.type == "cuda" else None
