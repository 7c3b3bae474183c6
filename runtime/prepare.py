"""`prepare`: modules and optimizers join the run, in place."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.optim import Optimizer

from . import aliases, leaves
from .backends.base import CUTTING, group_parameters
from .lost import reach
from .meeting import mark, meet, on, watch_forward
from .optim import register_guard
from .state import DistifyError, State, require

CHUNK = 64 << 20  # bytes of one broadcast


class Loose(nn.Module):
    """Holds a parameter of no module: a tensor of the script's own, a leaf that requires a gradient."""

    in_use = True  # nothing tells when: no forward is called

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self._parameters["tensor"] = tensor  # type: ignore[assignment]  # it need not be an nn.Parameter


def prepare(*objects: Any) -> Any:
    """Hand modules and their optimizers to the run, once they are built, before the first forward.

    All objects keep their identity, class and state-dict keys; nothing has to be rebound. Parameters and buffers
    become those of rank 0. May be called again for other objects. A module without trainable parameters is only made
    equal on all ranks.

    Args:
        objects: modules and optimizers in any order; an optimizer stands with, or after, the modules that it updates.
            Modules that were prepared before may stand with a further optimizer. Parameters of no module (leaves that
            require a gradient) stand for themselves, and stay whole.

    Returns:
        The last object, for an optimizer that has no name where it is built: `Trainer(net, prepare(net, SGD(…)))`.

    Raises:
        NotInitialized: `init` has not run.
        DistifyError: an object is prepared twice, is neither a module nor an optimizer nor a parameter, or an
            optimizer holds parameters of no prepared module.
    """
    run = require("prepare")
    assert run.backend is not None
    assert run.streams is not None
    last = objects[-1] if objects else None
    known = run.extra.setdefault("prepared", [])
    optimizers = [o for o in objects if isinstance(o, Optimizer)]
    if optimizers:  # a further optimizer of a prepared module: name both, as at first
        objects = tuple(o for o in objects if not any(o is module for module in known))
    objects = tuple(o for o in objects if not _inside(o, known))
    _check_objects([o for o in objects if not _is_leaf(o)], [*known, *run.optimizers])
    modules = [o for o in objects if isinstance(o, nn.Module)]
    modules += _loose([o for o in objects if isinstance(o, Tensor)], [*known, *modules])
    _check_parameters(modules, run)
    trained = [m for m in modules if any(p.requires_grad for p in m.parameters())]
    _check_devices(trained, run.backend.name, run.device)
    _check_types(trained, run)
    _check_owners([*known, *modules], optimizers)
    if run.rank == 0:
        _warn_of_orphans(trained, [*run.optimizers, *optimizers] if optimizers else [])
    if run.world_size > 1:
        meet("runtime.prepare()", _sizes(modules) if on() else "")
        broadcast(modules)
    aliases.warn(trained, run)
    known.extend(modules)
    run.modules.extend(trained)
    run.optimizers.extend(optimizers)
    run.backend.prepare(trained, optimizers)
    for module in trained:
        run.streams.attach(module)
        leaves.watch(module)
        if run.backend.name in CUTTING:
            watch_forward(module)
    for optimizer in optimizers:
        register_guard(optimizer)
    return last


def _sizes(modules: Sequence[nn.Module]) -> str:
    """What must be equal on all ranks for rank 0's values to be taken."""
    found = [(name, tuple(t.shape), str(t.dtype)) for module in modules for name, t in _named_tensors(module)]
    total = sum(t.numel() for module in modules for _, t in _named_tensors(module))
    kinds = ", ".join(type(module).__name__ for module in modules)
    return f"{kinds} with {len(found)} tensors, {total} elements" + f" ({mark(found)})"


def _is_leaf(item: Any) -> bool:
    return isinstance(item, Tensor) and item.is_leaf and item.requires_grad


def _loose(tensors: Sequence[Tensor], modules: Sequence[nn.Module]) -> list[nn.Module]:
    """A module for each tensor that no module has."""
    owned = {id(p) for module in modules for p in module.parameters()}
    return [Loose(tensor) for key, tensor in {id(t): t for t in tensors}.items() if key not in owned]


def _inside(item: Any, modules: Sequence[nn.Module]) -> bool:
    """Whether it is a part of a prepared module: an encoder with an optimizer of its own, say."""
    if not isinstance(item, nn.Module):
        return False
    return any(item is part for module in modules if item is not module for part in module.modules())


def _check_types(modules: Sequence[nn.Module], run: State) -> None:
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


def _check_devices(modules: Sequence[nn.Module], backend: str, device: torch.device | None) -> None:
    """Sharding backends move parameters to the run's device; a model that the script left elsewhere would break."""
    if device is None or backend not in CUTTING:
        return
    for module in modules:
        for name, p in module.named_parameters():
            if p.device.type not in (device.type, "meta"):
                raise DistifyError(
                    f"runtime.prepare(): with backend {backend!r} the parameters of {type(module).__name__} must be on "
                    f"{device}, where this run computes, but {name!r} is on {p.device}. Move the model and its batches "
                    "there, model.to(runtime.device()), or use backend='ddp', which trains on any device."
                )


def _check_objects(objects: Sequence[Any], prepared: Sequence[Any]) -> None:
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


def _check_parameters(modules: Iterable[nn.Module], run: State) -> None:
    assert run.backend is not None
    for module in modules:
        for name, tensor in _named_tensors(module):
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


def _check_owners(modules: Iterable[nn.Module], optimizers: Iterable[Optimizer]) -> None:
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
            shown = ", ".join(strangers[:5]) + (f" and {len(strangers) - 5} more" if len(strangers) > 5 else "")
            raise DistifyError(
                f"runtime.prepare(): {type(optimizer).__name__} updates parameters that belong to no prepared module: "
                f"{shown}. Pass the module that holds them in the same call; a parameter of no module goes into one: "
                "nn.ParameterList([p])."
            )


def _warn_of_orphans(modules: Iterable[nn.Module], optimizers: Sequence[Optimizer]) -> None:
    """A trainable parameter that no optimizer owns costs a gradient and never moves."""
    owned = {id(p) for optimizer in optimizers for p in group_parameters(optimizer)}
    for module in modules if optimizers else ():
        names = [name for name, p in module.named_parameters() if p.requires_grad and id(p) not in owned]
        if names:
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            warnings.warn(
                f"runtime.prepare(): no optimizer updates {shown} of {type(module).__name__}. If that is meant, freeze "
                "them with requires_grad_(False): their gradients are computed and reduced for nothing.",
                stacklevel=3,
            )


def _named_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def broadcast(modules: Iterable[nn.Module]) -> None:
    """Copy rank 0's parameters and buffers to all ranks, as bytes, coalesced."""
    found = {id(t): t.detach() for module in modules for _, t in _named_tensors(module)}
    groups: dict[torch.device, list[Tensor]] = {}
    for tensor in found.values():
        if tensor.layout == torch.strided and tensor.numel():
            groups.setdefault(tensor.device, []).append(tensor)
    for tensors in groups.values():
        while tensors:
            chunk: list[Tensor] = []
            size = 0
            while tensors and (not chunk or size + tensors[0].nbytes <= CHUNK):
                size += tensors[0].nbytes
                chunk.append(tensors.pop(0))
            _broadcast(chunk)


def _broadcast(tensors: Sequence[Tensor]) -> None:
    run = require("prepare")
    flat = torch.cat([t.contiguous().reshape(-1).view(torch.uint8) for t in tensors])
    reach(dist.broadcast, flat, 0, group=run.reduce_group)
    if run.rank == 0:
        return
    start = 0
    for tensor in tensors:
        values = flat[start : start + tensor.nbytes].clone().view(tensor.dtype).reshape(tensor.shape)
        tensor.copy_(values)
        start += tensor.nbytes


def prepared(run: State) -> list[nn.Module]:
    """All modules that were passed to `prepare`, also those without trainable parameters."""
    found: list[nn.Module] = run.extra.get("prepared", [])
    return found
