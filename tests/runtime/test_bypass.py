"""Calls of torch that go past the runtime where they would train wrongly: errors that name the fix."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.pool import Pool


def start(backend: str) -> Any:
    from distify import runtime

    zero = int(backend[-1]) if backend.startswith("zero") else None
    runtime.init(backend=backend if zero is None else "deepspeed", zero_stage=zero)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    runtime.prepare(model, optimizer)
    x, y = runtime.split((torch.randn(6, 6), torch.randint(0, 4, (6,))))
    return runtime, model, optimizer, x, y


def raw_backward(backend: str) -> str:
    runtime, model, _, x, y = start(backend)
    loss = runtime.mean(F.cross_entropy(model(x), y))
    try:
        loss.backward()
    except runtime.state.DistifyError as error:
        return str(error)
    return "passed"


@pytest.mark.parametrize("backend", ["ddp", "fsdp", "zero1", "zero2", "zero3"])
def test_backward_of_torch(backend: str, pool2: Pool) -> None:
    for found in pool2.run(raw_backward, backend):
        assert "Write runtime.backward(loss) in place of loss.backward()" in found


def goes_on(backend: str) -> float:
    """What is legitimate: gradients without `.grad`, other models, torch's own step where gradients are whole."""
    runtime, model, optimizer, x, y = start(backend)
    x = x.clone().requires_grad_()
    torch.autograd.grad(model(x).sum(), x)
    other = nn.Linear(6, 1)
    other(x).sum().backward()
    runtime.backward(runtime.mean(F.cross_entropy(model(x), y)))
    runtime.step(optimizer)
    optimizer.zero_grad()
    loss = runtime.mean(F.cross_entropy(model(x), y))
    runtime.backward(loss)
    if backend == "ddp":
        optimizer.step()
    runtime.shutdown()
    return loss.item()


@pytest.mark.parametrize("backend", ["ddp", "fsdp", "zero2", "zero3"])
def test_what_goes_on(backend: str, pool2: Pool) -> None:
    first, second = pool2.run(goes_on, backend)
    assert first == second


def step_of_torch(backend: str) -> str:
    runtime, model, optimizer, x, y = start(backend)
    runtime.backward(runtime.mean(F.cross_entropy(model(x), y)))
    with pytest.raises(runtime.state.DistifyError) as error:
        optimizer.step()
    return str(error.value)


@pytest.mark.parametrize("backend", ["fsdp", "zero1", "zero3"])
def test_step_of_torch(backend: str, pool2: Pool) -> None:
    for found in pool2.run(step_of_torch, backend):
        assert "Write runtime.step(optimizer) in its place" in found


def unprepared(kind: str) -> str:
    runtime, _, _, x, y = start("ddp")
    model = nn.Linear(6, 4)
    lbfgs = kind == "replicated lbfgs"
    optimizer = torch.optim.LBFGS(model.parameters()) if lbfgs else torch.optim.Adam(model.parameters())
    if kind == "main":
        runtime.on_main(optimizer.step)
        return "passed"
    try:
        for _ in range(5):
            rows = torch.ones(3, 6) if kind.startswith("replicated") else x

            def closure(rows: torch.Tensor = rows) -> torch.Tensor:
                optimizer.zero_grad()
                loss = runtime.mean(F.cross_entropy(model(rows), y)) if kind == "sliced" else model(rows).pow(2).sum()
                loss.backward()
                return loss

            if lbfgs:
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()
    except runtime.state.DistifyError as error:
        return str(error)
    return "passed"


@pytest.mark.parametrize("kind", ["replicated", "replicated lbfgs", "main"])
def test_an_unprepared_optimizer_of_equal_gradients(kind: str, pool2: Pool) -> None:
    assert pool2.run(unprepared, kind) == ["passed"] * 2


def test_an_unprepared_optimizer_of_slices(pool2: Pool) -> None:
    for found in pool2.run(unprepared, "unreduced"):
        assert "Adam.step() was called directly" in found
        assert "runtime.prepare(model, optimizer)" in found
    for found in pool2.run(unprepared, "sliced"):
        assert "Write runtime.backward(loss) in place of loss.backward()" in found


def wrapped(backend: str) -> str:
    """An optimizer that another one holds, on the parameters of a prepared module."""
    runtime, model, _, x, y = start(backend)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    runtime.backward(runtime.mean(F.cross_entropy(model(x), y)))
    try:
        inner.step()
    except runtime.state.DistifyError as error:
        return str(error)
    return "passed"


def test_an_unprepared_optimizer_of_a_prepared_module(pool2: Pool) -> None:
    assert pool2.run(wrapped, "ddp") == ["passed"] * 2
    for found in pool2.run(wrapped, "fsdp"):
        assert "not prepared, but parameters and gradients are managed by fsdp" in found
