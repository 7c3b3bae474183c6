"""Clipping, steps of optimizers and schedulers, closures, and the trace."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.pool import Pool, RankError
from tests.runtime import gradient_cases as cases
from tests.runtime.gradient_cases import Net


def start(model: nn.Module, optimizer: torch.optim.Optimizer, backend: str = "ddp", **options: Any) -> Any:
    from distify import runtime

    runtime.init(backend=backend, **options)
    runtime.prepare(model, optimizer)
    return runtime


def clipped(kind: str) -> tuple[list[float], list[torch.Tensor]]:
    model = cases.build("", torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    runtime = start(model, optimizer)
    x, y = runtime.split(cases.data(7, torch.float64))
    norms = []
    for _ in range(3):
        optimizer.zero_grad()
        runtime.backward(runtime.mean(F.cross_entropy(model(x), y)))
        if kind == "value":
            runtime.clip_grad_value_(model.parameters(), 0.01)
        else:
            norms.append(runtime.clip_grad_norm_(model.parameters(), 0.1, norm_type=float(kind)).item())
        runtime.step(optimizer)
    return norms, [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("kind", ["2", "1", "inf", "value"])
def test_clipping_is_by_the_whole_batch(kind: str, pool2: Pool) -> None:
    model, (x, y), norms = cases.build("", torch.float64), cases.data(7, torch.float64), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        if kind == "value":
            nn.utils.clip_grad_value_(model.parameters(), 0.01)
        else:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1, norm_type=float(kind)).item())
        optimizer.step()
    for found, weights in pool2.run(clipped, kind):
        assert found == pytest.approx(norms, abs=1e-12)
        assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(weights, model.parameters(), strict=True))


def test_clip_takes_what_torch_takes(alone: None) -> None:
    from distify import runtime

    runtime.init()
    p = nn.Parameter(torch.ones(2))
    p.grad = torch.tensor([3.0, 4.0])
    assert runtime.clip_grad_norm_(p, 1.0).item() == 5.0
    assert p.grad.norm().item() == pytest.approx(1.0)
    p.grad = torch.tensor([math.inf, 4.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        runtime.clip_grad_norm_([p], 1.0, error_if_nonfinite=True, foreach=False)
    runtime.clip_grad_value_(iter([p]), 2.0)
    assert p.grad.tolist() == [2.0, 2.0]


def lbfgs() -> float:
    model = cases.build("", torch.float64)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, line_search_fn="strong_wolfe")
    runtime = start(model, optimizer)
    x, y = runtime.split(cases.data(7, torch.float64))

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = runtime.mean(F.cross_entropy(model(x), y))
        runtime.backward(loss)
        return loss

    for _ in range(2):
        result = runtime.step(optimizer, closure=closure)
    return float(result)


def test_closures(pool2: Pool) -> None:
    model, (x, y) = cases.build("", torch.float64), cases.data(7, torch.float64)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for _ in range(2):
        result = optimizer.step(closure)
    assert pool2.run(lbfgs) == pytest.approx([float(result)] * 2, rel=1e-7)


def test_a_scheduler_waits_while_all_steps_were_skipped(alone: None) -> None:
    from distify.runtime.state import state

    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    runtime = start(model, optimizer, precision="fp16")
    per_step = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    per_epoch = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=5)
    rates = []
    for bad in (True, False, True, True):
        optimizer.zero_grad()
        runtime.backward(model(torch.ones(1, 6)).sum() * (math.inf if bad else 1e-6))
        runtime.step(optimizer)
        runtime.step(per_step)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [1.0, 0.5, 0.5, 0.5]
    runtime.step(per_epoch)  # once per epoch, in which one step was taken: it moves though the last one was skipped
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)
    runtime.step(plateau, 0.3)
    assert plateau.best == 0.3
    assert state.precision is not None
    assert state.precision.scaler is not None
    assert state.precision.scaler.state_dict()["scale"] == 65536.0 / 8


def test_mistakes_say_what_to_write(alone: None) -> None:
    from distify.runtime.exits import Misconfigured
    from distify.runtime.state import DistifyError

    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    runtime = start(model, optimizer, precision="fp16", accumulate=2)
    other = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)
    with pytest.raises(DistifyError, match=r"was not prepared.*runtime\.prepare"):
        runtime.step(other)
    with pytest.raises(Misconfigured, match=r"accumulate=2.*distify rewrite --accumulate"):
        runtime.step(optimizer)
    other.step()  # nobody's business

    def block(depth: int) -> None:
        with runtime.accumulate():
            if depth:
                block(depth - 1)

    with pytest.raises(DistifyError, match="itself"):
        block(1)
    with pytest.raises(DistifyError, match=r"accumulate=2.*no `with runtime\.accumulate\(\) as"):
        runtime.step(optimizer)
    with pytest.raises(DistifyError, match=r"loss scale of fp16.*runtime\.step\(optimizer\)"):
        optimizer.step()
    for last in (False, True):
        with runtime.accumulate() as window:
            runtime.backward(model(torch.ones(1, 6)).sum())
            assert window.ends == last
            if not last:
                with pytest.raises(DistifyError, match=r"if window\.ends"):
                    runtime.step(optimizer)
                continue
            with pytest.raises(DistifyError, match="bf16"):
                runtime.step(optimizer, closure=lambda: None)
            runtime.step(optimizer)
    with pytest.raises(DistifyError, match="a float"):
        runtime.backward(1.0)


def unfinished() -> None:
    model = Net().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    runtime = start(model, optimizer, accumulate=2)
    with runtime.accumulate():
        optimizer.step()


def plain_step() -> bool:
    """On ddp in fp32 gradients are whole: the optimizer's own step is as good."""
    model = Net().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    runtime = start(model, optimizer)
    x, y = runtime.split(cases.data(7, torch.float64))
    runtime.backward(runtime.mean(F.cross_entropy(model(x), y)))
    optimizer.step()
    return True


def test_the_optimizer_s_own_step(pool2: Pool) -> None:
    with pytest.raises(RankError, match="window is not complete"):
        pool2.run(unfinished)
    assert pool2.run(plain_step) == [True, True]


def traced(path: str, precision: str, k: int) -> None:
    import os

    os.environ["DISTIFY_TRACE"] = path
    try:
        model = cases.build("", torch.float32)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        runtime = start(model, optimizer, precision=precision, accumulate=k)
        for step in range(3):
            x, y = cases.data(8, torch.float32)
            for part in range(k):
                bx, by = runtime.split((x[part * 8 // k : (part + 1) * 8 // k], y[part * 8 // k : (part + 1) * 8 // k]))
                with runtime.accumulate() as window:
                    if window.starts:
                        optimizer.zero_grad()
                    loss = runtime.mean(F.cross_entropy(model(bx), by))
                    runtime.backward(loss * (math.inf if step == 2 and precision == "fp16" else 1))
                    if window.ends:
                        runtime.clip_grad_norm_(model.parameters(), 100.0)
                        runtime.step(optimizer)
    finally:
        del os.environ["DISTIFY_TRACE"]


def by_hand(k: int) -> tuple[list[float], list[float]]:
    model, (x, y) = cases.build("", torch.float32), cases.data(8, torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, norms = [], []
    for _ in range(3):
        optimizer.zero_grad()
        for part in range(k):
            rows = slice(part * 8 // k, (part + 1) * 8 // k)
            loss = F.cross_entropy(model(x[rows]), y[rows])
            (loss / k).backward()
            losses.append(loss.item())
        norms.append(float(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm()))
        optimizer.step()
    return losses, norms


@pytest.mark.parametrize(("precision", "k"), [("fp32", 1), ("fp16", 1), ("fp32", 2)])
def test_the_trace_holds_global_losses_and_norms(precision: str, k: int, pool2: Pool, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    pool2.run(traced, str(path), precision, k)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    losses, norms = by_hand(k)
    backwards = [line for line in lines if "backward" in line]
    steps = [line for line in lines if "step" in line]
    assert [line["backward"] for line in backwards] == list(range(3 * k))
    assert [line["step"] for line in steps] == [0, 1, 2]
    if precision == "fp16":
        assert steps[2]["skipped"] is True
        backwards, losses, steps, norms = backwards[:2], losses[:2], steps[:2], norms[:2]
    assert [line["loss"] for line in backwards] == pytest.approx(losses, rel=1e-5)
    assert [line["grad_norm"] for line in steps] == pytest.approx(norms, rel=1e-5)
    assert not any("skipped" in line for line in steps)


@pytest.mark.parametrize("options", [{"precision": "fp16"}, {"accumulate": 2}])
def test_torch_s_own_backward_on_one_process(options: dict[str, Any], alone: None) -> None:
    from distify.runtime.state import DistifyError

    model = nn.Linear(6, 1)
    runtime = start(model, torch.optim.SGD(model.parameters(), lr=1.0), **options)
    with pytest.raises(DistifyError, match=r"runtime\.backward\(loss\)"):
        model(torch.ones(1, 6)).sum().backward()
    runtime.backward(model(torch.ones(1, 6)).sum())
    runtime.shutdown()
    model(torch.ones(1, 6)).sum().backward()  # nobody watches any more
