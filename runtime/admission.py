"""What may join a run, and what is said about it: the checks of `prepare`."""

from __future__ import annotations

import sys
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.optim import Optimizer

from . import spilled
from .backends.base import CUTTING, group_parameters
from .collectives import exchange, gather_objects
from .state import DistifyError, State
from .words import some


def thawed(module: nn.Module, objects: Sequence[Any], run: State) -> bool:
    """Whether a module that was frozen when it was prepared is prepared again, to be trained."""
    again = any(module is o for o in objects) and not any(module is trained for trained in run.modules)
    return again and any(p.requires_grad for p in module.parameters())


def inside(item: Any, modules: Sequence[nn.Module], run: State) -> bool:
    """Whether it is a part of a module that is trained: an encoder with an optimizer of its own, say."""
    if not isinstance(item, nn.Module):
        return False
    assert run.backend is not None
    held = run.backend.held()
    if not all(p in held for p in item.parameters() if p.requires_grad):
        return False
    return any(item is part for module in modules if item is not module for part in module.modules())


def check_types(modules: Sequence[nn.Module], run: State) -> None:
    """Weights in half precision, as `model.half()` leaves them: what scales losses can't use them.

    Raises:
        DistifyError: losses are scaled in this run.
    """
    for module in modules:
        name = next((n for n, p in module.named_parameters() if p.requires_grad and p.dtype == torch.float16), None)
        if name is None:
            continue
        kind = type(module).__name__
        assert run.precision is not None
        assert run.backend is not None
        if run.precision.scaler is not None:
            raise DistifyError(
                f"runtime.prepare(): {name!r} of {kind} is fp16, and so would be its scaled gradients, which overflow; "
                "torch's GradScaler refuses them too. Remove model.half(): with precision='fp16' weights stay fp32, "
                "and what runs under runtime.autocast() is computed in fp16."
            )
        if run.rank == 0 and run.world_size > 1 and run.backend.name != "deepspeed" and "half" not in run.extra:
            run.extra["half"] = True
            sys.stderr.write(
                f"distify: {name!r} of {kind} is fp16: updates below a thousandth of a weight are lost, and small "
                "gradients become zero, as in the original. To train in fp16 with fp32 weights and a loss scale, "
                "remove model.half() and set precision to 'fp16', or to 'bf16'.\n"
            )


def check_devices(modules: Sequence[nn.Module], backend: str, device: torch.device | None) -> None:
    """Sharding backends move parameters to the run's device; a model that the script left elsewhere would break."""
    if device is None or backend not in CUTTING:
        return
    spill = spilled.current()
    for module in modules:
        for name, p in module.named_parameters():
            if p.device.type not in (device.type, "meta") and not (spill is not None and p in spill):
                raise DistifyError(
                    f"runtime.prepare(): with backend {backend!r} the parameters of {type(module).__name__} must be on "
                    f"{device}, where this run computes, but {name!r} is on {p.device}. Move the model and its batches "
                    "there, model.to(runtime.device()), or use backend='ddp', which trains on any device."
                )


def check_objects(objects: Sequence[Any], prepared: Sequence[Any]) -> None:
    for k, item in enumerate(objects):
        kind = type(item).__name__
        if not isinstance(item, (nn.Module, Optimizer)):
            raise DistifyError(
                f"runtime.prepare() takes modules and optimizers, not a {kind}. Loaders go to runtime.shard(), "
                "schedulers stay as they are and move with runtime.step(scheduler)."
            )
        if any(item is other for other in (*prepared, *objects[:k])):
            raise DistifyError(
                f"runtime.prepare(): this {kind} was prepared before. Each object is prepared once: remove "
                "one call, or build a new object."
            )


def check_parameters(modules: Iterable[nn.Module], run: State) -> None:
    assert run.backend is not None
    for module in modules:
        for name, tensor in named_tensors(module):
            if run.backend.name == "fsdp" and run.backend.cuts(tensor):
                raise DistifyError(
                    f"runtime.prepare(): {name} of {type(module).__name__} lies in parts already, since another module "
                    "that holds it was prepared before. Prepare the outermost module first, or all modules that share "
                    "parameters in one call with their optimizers."
                )
            if isinstance(tensor, (UninitializedParameter, UninitializedBuffer)):
                raise DistifyError(
                    f"runtime.prepare(): {name} of {type(module).__name__} has no shape yet. Run one forward, or give "
                    "the lazy layers their sizes, before runtime.prepare()."
                )
            if tensor.is_meta:
                raise DistifyError(
                    f"runtime.prepare(): {name} of {type(module).__name__} is on the meta device, without values. "
                    "Load or initialise the weights before runtime.prepare()."
                )


def check_owners(modules: Iterable[nn.Module], optimizers: Iterable[Optimizer]) -> None:
    """Every parameter of an optimizer belongs to a prepared module: else nobody would reduce its gradient."""
    owned = {id(p) for module in modules for p in module.parameters()}
    for optimizer in optimizers:
        strangers = [
            f"param_groups[{g}]['params'][{k}] of shape {tuple(p.shape)}"
            for g, group in enumerate(optimizer.param_groups)
            for k, p in enumerate(group["params"])
            if id(p) not in owned and p.requires_grad
        ]
        if strangers:
            raise DistifyError(
                f"runtime.prepare(): {type(optimizer).__name__} updates parameters that belong to no prepared module: "
                f"{some(strangers, 5)}. Pass the module that holds them in the same call; a parameter of no module "
                "goes into one: nn.ParameterList([p])."
            )


def warn_of_orphans(modules: Iterable[nn.Module], optimizers: Sequence[Optimizer]) -> None:
    """A trainable parameter that no optimizer owns costs a gradient and never moves."""
    owned = {id(p) for optimizer in optimizers for p in group_parameters(optimizer)}
    for module in modules if optimizers else ():
        names = [name for name, p in module.named_parameters() if p.requires_grad and id(p) not in owned]
        if names:
            warnings.warn(
                f"runtime.prepare(): no optimizer updates {some(names, 5)} of {type(module).__name__}. If that is "
                "meant, freeze them with requires_grad_(False): their gradients are computed and reduced for nothing.",
                stacklevel=3,
            )


def check_alike(modules: Sequence[nn.Module], run: State) -> None:
    """Rank 0's values are for modules of the same build; a collective.

    Raises:
        DistifyError: they differ between ranks, on all ranks alike.
    """
    mine = built(modules)
    marks = exchange([len(mine), zlib.crc32(repr(mine).encode())], room=2)
    if all(other == marks[0] for other in marks):
        return
    found = gather_objects(mine)
    rank = next(k for k, other in enumerate(found) if other != found[0])
    pairs = zip_longest(found[0], found[rank], fillvalue=("nothing more", "", ""))
    (name, shape, kind), (other, its_shape, its_kind) = next(pair for pair in pairs if pair[0] != pair[1])
    raise DistifyError(
        f"runtime.prepare(): {', '.join(type(module).__name__ for module in modules)} differs between ranks: "
        f"{name} {shape} {kind} on rank 0, {other} {its_shape} {its_kind} on rank {rank}. All ranks must build the "
        "same model: sizes that come from data (a vocabulary, a number of classes) must not depend on the rank."
    )


def built(modules: Iterable[nn.Module]) -> list[tuple[str, tuple[int, ...], str]]:
    """Name, shape and type of all that modules hold."""
    return [(name, tuple(t.shape), str(t.dtype)) for module in modules for name, t in named_tensors(module)]


def named_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()
