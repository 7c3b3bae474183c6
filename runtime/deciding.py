"""What decides the course of a run, and must be equal on all ranks: see `digest`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from . import meeting
from .backends.base import CUTTING
from .meeting import mark
from .state import state
from .steps import steps

Fact = int | float | str
KEPT = 8  # losses of one step that are compared when debugging


@dataclass
class Notes:
    """What the run has done since it began.

    Attributes:
        backwards: calls of `backward`.
        losses: the latest.
        agreed: when all ranks held the same the last time.
        passes: that ended.
        unseen: batches since the last comparison at the end of a pass.
    """

    backwards: int = 0
    losses: list[Tensor] = field(default_factory=list)
    agreed: str = "the run began"
    passes: int = 0
    unseen: int = 0


def notes() -> Notes:
    """Those of this run."""
    found: Notes | None = state.extra.get("digest")
    if found is None:
        found = state.extra["digest"] = Notes()
    return found


def facts() -> Iterator[tuple[str, Fact]]:
    """What must be equal, by names for messages; in one order on all ranks."""
    noted = notes()
    yield "calls of runtime.backward()", noted.backwards
    for back, loss in enumerate(reversed(noted.losses)):
        value = float(loss.double().sum())
        yield ("loss of the latest backward" if not back else f"loss {back} backward calls before"), value
    for name, optimizer in _named(state.optimizers):
        yield f"steps of {name}", steps().tried.get(optimizer, 0)
        yield f"steps of {name} that were not skipped", steps().settled().taken.get(optimizer, 0)
        yield from _hyperparameters(name, optimizer)
    scaler = getattr(state.precision, "scaler", None)
    if scaler is not None:
        yield "loss scale", float(scaler.scale)
    whole = state.backend is not None and state.backend.name not in CUTTING
    for name, module in _named(state.modules):
        yield f"training mode of the parts of {name}", mark([part.training for part in module.modules()])
        yield f"frozen parameters of {name}", mark([p.requires_grad for p in module.parameters()])
        if whole:
            yield from _weights(name, module)


def _named(items: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Each with its class, numbered where there are several."""
    kinds = [type(item).__name__ for item in items]
    for k, (kind, item) in enumerate(zip(kinds, items)):
        yield (kind if kinds.count(kind) == 1 else f"{kind} {kinds[: k + 1].count(kind)}"), item


def _hyperparameters(name: str, optimizer: Optimizer) -> Iterator[tuple[str, Fact]]:
    for k, group in enumerate(optimizer.param_groups):
        for key, value in group.items():
            parts = value if isinstance(value, (tuple, list)) else [value]
            if key != "params" and len(parts) < KEPT:
                for number in parts:
                    if isinstance(number, (bool, int, float)) or (isinstance(number, Tensor) and number.numel() == 1):
                        yield f"{key} of {name}, group {k}", float(number)


def _weights(name: str, module: nn.Module) -> Iterator[tuple[str, Fact]]:
    """Two sums over the norms of all parameters, and if debugging a sum over their bits."""
    groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    for p in module.parameters():
        if p.is_floating_point() and p.layout == torch.strided and p.numel():
            groups.setdefault((p.device, p.dtype), []).append(p.detach())
    first, second, bits = 0.0, 0.0, 0
    for params in groups.values():
        norms = torch.stack(torch._foreach_norm(params)).double().cpu()
        first += float(norms.sum())
        second += float((norms * torch.arange(len(params), dtype=torch.float64).mul_(0.7).cos_()).sum())
        if meeting.on():
            bits += sum(_bits(p) * (k + 1) for k, p in enumerate(params))
    yield f"parameters of {name} (sum of norms)", first
    yield f"parameters of {name} (weighted sum of norms)", second
    if meeting.on():
        yield f"parameters of {name} (bits)", mark(bits)


def _bits(p: Tensor) -> int:
    flat = p.contiguous().reshape(-1)
    flat = flat.view(torch.int16) if flat.element_size() % 2 == 0 else flat.view(torch.uint8)
    return int(flat.sum(dtype=torch.int64))
