"""`prepare`: modules and optimizers join the run, in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from . import admission, aliases, leaves, recompute, spilled
from .backends.base import CUTTING
from .lost import reach
from .meeting import mark, meet, on, watch_forward
from .optim import register_guard
from .state import State, require
from .uncompiled import uncompiled

CHUNK = 64 << 20  # bytes of one broadcast


class Loose(nn.Module):
    """Holds a parameter of no module: a tensor of the script's own, a leaf that requires a gradient."""

    in_use = True  # nothing tells when: no forward is called

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self._parameters["tensor"] = tensor  # type: ignore[assignment]  # it need not be an nn.Parameter


@uncompiled
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
    known[:] = [module for module in known if not admission.thawed(module, objects, run)]
    optimizers = [o for o in objects if isinstance(o, Optimizer)]
    if optimizers:  # a further optimizer of a prepared module: name both, as at first
        objects = tuple(o for o in objects if not any(o is module for module in known))
    objects = tuple(o for o in objects if not admission.inside(o, known, run))
    admission.check_objects([o for o in objects if not _is_leaf(o)], [*known, *run.optimizers])
    modules = [o for o in objects if isinstance(o, nn.Module)]
    modules += _loose([o for o in objects if isinstance(o, Tensor)], [*known, *modules])
    admission.check_parameters(modules, run)
    trained = [m for m in modules if any(p.requires_grad for p in m.parameters())]
    admission.check_devices(trained, run.backend.name, run.device)
    admission.check_types(trained, run)
    admission.check_owners([*known, *modules], optimizers)
    if run.rank == 0:
        admission.warn_of_orphans(trained, [*run.optimizers, *optimizers] if optimizers else [])
    if run.world_size > 1:
        meet("runtime.prepare()", _sizes(modules) if on() else "")
        admission.check_alike(modules, run)
        broadcast(modules)
    aliases.warn(trained, run)
    known.extend(modules)
    run.modules.extend(trained)
    run.optimizers.extend(optimizers)
    run.backend.prepare(trained, optimizers)
    spilled.arrive(modules)
    assert run.config is not None
    if run.config.checkpoint_activations:
        recompute.install([module for module in trained if not isinstance(module, Loose)])
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
    found = admission.built(modules)
    total = sum(t.numel() for module in modules for _, t in admission.named_tensors(module))
    kinds = ", ".join(type(module).__name__ for module in modules)
    return f"{kinds} with {len(found)} tensors, {total} elements" + f" ({mark(found)})"


def _is_leaf(item: Any) -> bool:
    return isinstance(item, Tensor) and item.is_leaf and item.requires_grad


def _loose(tensors: Sequence[Tensor], modules: Sequence[nn.Module]) -> list[nn.Module]:
    """A module for each tensor that no module has."""
    owned = {id(p) for module in modules for p in module.parameters()}
    return [Loose(tensor) for key, tensor in {id(t): t for t in tensors}.items() if key not in owned]


def broadcast(modules: Iterable[nn.Module]) -> None:
    """Copy rank 0's parameters and buffers to all ranks, as bytes, coalesced."""
    found = {id(t): t.detach() for module in modules for _, t in admission.named_tensors(module)}
    groups: dict[torch.device, list[Tensor]] = {}
    for tensor in found.values():
        if tensor.layout == torch.strided and tensor.numel():
            groups.setdefault(tensor.device, []).extend(_slices(tensor))
    for tensors in groups.values():
        while tensors:
            chunk: list[Tensor] = []
            size = 0
            while tensors and (not chunk or size + tensors[0].nbytes <= CHUNK):
                size += tensors[0].nbytes
                chunk.append(tensors.pop(0))
            _broadcast(chunk)


def _slices(tensor: Tensor) -> list[Tensor]:
    """A tensor, as bytes in several pieces if it is large: a broadcast copies each."""
    if tensor.nbytes <= CHUNK or not tensor.is_contiguous():
        return [tensor]
    return list(torch.split(tensor.view(-1).view(torch.uint8), CHUNK))


def _broadcast(tensors: Sequence[Tensor]) -> None:
    run = require("prepare")
    flat = torch.cat([t.contiguous().reshape(-1).view(torch.uint8) for t in tensors])
    if spilled.current() is not None:  # its parameters are on their way to the device, which ranks are connected by
        flat = flat.to(run.device)
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
