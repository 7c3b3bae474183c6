"""Cutting a model: what can be cut, and `fully_shard` on each of its groups."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor

from .. import spilled
from ..collectives import gather_objects
from ..state import DistifyError, state
from . import fsdp_plan, recurrent
from .fsdp_tree import can_share
from .sharded import Replaced, cut_of, local

NOWHERE = 1 << 40  # among how many ranks parts lie that take no device memory


def check(parameters: Mapping[str, Tensor]) -> None:
    """Refuse what `fully_shard` can't cut, and make contiguous what it wants so.

    Raises:
        DistifyError: a parameter belongs to another model that was cut.
    """
    for name, p in parameters.items():
        if type(p) is Replaced or isinstance(p, DTensor):
            raise DistifyError(
                f"runtime.prepare() with backend 'fsdp': parameter {name!r} belongs to another prepared model too. "
                "Give both to the runtime as one module that holds them, or use backend='ddp'."
            )
        if p.dim() and not p.is_contiguous():
            with torch.no_grad():
                p.data = p.data.contiguous()


def room(root: nn.Module) -> int | None:
    """Bytes of device memory that a model may share with what it computes, the least of all ranks; a collective.

    Its whole parameters, which lie there until it is cut, count as free. `None` on the CPU, whose memory is shared.
    """
    device = state.device
    if device is None or device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_reserved(device)
    if hasattr(torch.cuda, "get_per_process_memory_fraction"):  # since torch 2.8; 1 unless the script set it
        free = min(free, int(torch.cuda.get_per_process_memory_fraction(device) * total) - held)
    free += held - torch.cuda.memory_allocated(device)
    free += sum(p.nbytes for p in root.parameters() if p.device.type == "cuda")
    return min(int(found) for found in gather_objects(free))


def without_values(root: nn.Module, whole: Collection[Tensor]) -> dict[str, nn.Parameter]:
    """Put parameters without values in the place of those that lie in files, but for those that stay whole.

    Returns:
        By name, what the others' parts are to be taken from.
    """
    spill = spilled.current()
    if spill is None:
        return {}
    for p in whole:
        spill.bring(p)
    found = {name: p for name, p in root.named_parameters() if p in spill and not any(p is kept for kept in whole)}
    empty = {id(p): nn.Parameter(torch.empty_like(p, device="meta"), p.requires_grad) for p in found.values()}
    for module in root.modules():
        for name, held in module._parameters.items():
            if id(held) in empty:
                module._parameters[name] = empty[id(held)]
    return found


def bring_parts(root: nn.Module, values: Mapping[str, Tensor], device: torch.device) -> None:
    """Give this rank's parts their values, one parameter after the other."""
    spill = spilled.current()
    if spill is None or not values:
        return
    root._apply(lambda t: torch.empty_like(t, device=device) if t.is_meta else t)  # type: ignore[no-untyped-call]
    after = dict(root.named_parameters())
    for name, value in values.items():
        part = after[name]
        assert isinstance(part, DTensor)
        with torch.no_grad():
            local(part).copy_(cut_of(value, part))
        spill.let_go()


def cut(
    root: nn.Module, mesh: DeviceMesh, reduced: torch.dtype | None, shared: Collection[nn.Parameter] = ()
) -> tuple[list[FSDPModule], list[nn.Parameter]]:
    """Cut a model in place.

    Args:
        root: a model whose parameters have been checked.
        mesh: all ranks, in one dimension.
        reduced: autocast type of the run, `None` for fp32.
        shared: parameters that belong to other models too, and stay whole.

    Returns:
        The modules of its groups, the root last, and the parameters that stay whole.
    """
    recurrent.keep_in_place(root)
    ignorable = "ignored_params" in inspect.signature(fully_shard).parameters
    assert state.config is not None
    free, ranks, reshard = room(root), mesh.size(mesh.ndim - 1), state.config.reshard
    if state.config.offload == "cpu":
        ranks = NOWHERE
    together = fsdp_plan.TOGETHER if can_share() else 0
    plan = fsdp_plan.plan(root, reduced is not None, ignorable, fsdp_plan.BLOCK, shared, free, ranks, reshard, together)
    offload = OffloadPolicy()
    assert state.device is not None
    if state.config.offload == "cpu" and state.device.type != "cpu":
        offload = CPUOffloadPolicy()
    values = without_values(root, plan.whole)
    units: list[FSDPModule] = []
    for group in plan.groups:
        options: dict[str, Any] = {"ignored_params": set(plan.whole)} if plan.whole else {}
        if root not in group.modules:
            options["reshard_after_forward"] = not plan.keep
        cast = reduced if group.cast else None
        policy = MixedPrecisionPolicy(cast, torch.float32 if cast else None, None, False)
        modules = [*group.modules] if len(group.modules) > 1 else group.modules[0]
        fully_shard(modules, mesh=mesh, mp_policy=policy, offload_policy=offload, **options)
        units += group.modules  # type: ignore[arg-type]  # which are of such classes now
    bring_parts(root, values, torch.device("cpu") if isinstance(offload, CPUOffloadPolicy) else state.device)
    return units, plan.whole
