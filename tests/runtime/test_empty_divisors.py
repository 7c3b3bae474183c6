"""`mean(by=)` where nothing counts: on some ranks, or on all of them, as when all targets are ignored."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.pool import Pool
from tests.runtime.gradient_cases import Plain

IGNORED = -100
TARGETS = {
    "all ignored": [IGNORED] * 7,
    "first rank's ignored": [IGNORED] * 4 + [1, 2, IGNORED],
    "last rank's ignored": [3, IGNORED, 0, 1] + [IGNORED] * 3,
    "all ignored, fewer rows than ranks": [IGNORED],
}


def builtin(r: Any, out: Tensor, y: Tensor) -> Tensor:
    return r.mean(F.cross_entropy(out, y), by=(y != IGNORED).sum())


def masked(r: Any, out: Tensor, y: Tensor) -> Tensor:
    keep = (y != IGNORED).float()
    return r.mean((F.cross_entropy(out, y, reduction="none") * keep).sum() / keep.sum(), by=keep.sum())


def clamped(r: Any, out: Tensor, y: Tensor) -> Tensor:
    keep = (y != IGNORED).float()
    return r.mean((F.cross_entropy(out, y, reduction="none") * keep).sum() / keep.sum().clamp(min=1), by=keep.sum())


def by_number(r: Any, out: Tensor, y: Tensor) -> Tensor:
    return r.mean(F.cross_entropy(out, y), by=int((y != IGNORED).sum()))


LOSSES = {f.__name__: f for f in (builtin, masked, clamped, by_number)}


def build() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)), torch.randn(7, 3)


def step(backend: str, loss: str, targets: str) -> tuple[float, dict[str, Tensor]]:
    """One step on each rank: the loss, and the weights after it."""
    from distify import runtime

    runtime.init(backend="deepspeed" if backend == "zero2" else backend)
    model, x = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    runtime.prepare(model, optimizer)
    y = torch.tensor(TARGETS[targets])
    x, y = runtime.split((x[: len(y)], y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = LOSSES[loss](runtime, model(x), y)
        runtime.backward(value)
    runtime.step(optimizer)
    return value.item(), runtime.state_dict(model)


def original(loss: str, targets: str) -> tuple[float, dict[str, Tensor]]:
    model, x = build()
    y = torch.tensor(TARGETS[targets])
    value = LOSSES[loss](Plain, model(x[: len(y)]), y)
    value.backward()
    torch.optim.SGD(model.parameters(), lr=0.5).step()
    return value.item(), model.state_dict()


@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("loss", LOSSES)
def test_ddp(loss: str, targets: str, pool2: Pool) -> None:
    compare(pool2.run(step, "ddp", loss, targets), *original(loss, targets))


@pytest.mark.parametrize("backend", ["fsdp", "zero2"])
@pytest.mark.parametrize("loss", ["builtin", "masked"])
def test_sharded(loss: str, backend: str, pool2: Pool) -> None:
    for targets in TARGETS:
        compare(pool2.run(step, backend, loss, targets), *original(loss, targets))


def compare(found: list[Any], value: float, weights: dict[str, Tensor]) -> None:
    for mine, state in found:
        assert mine == pytest.approx(value, rel=1e-6, nan_ok=True)
        for name, weight in weights.items():
            torch.testing.assert_close(state[name], weight, equal_nan=True, rtol=1e-5, atol=1e-6)
