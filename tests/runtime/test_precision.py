"""fp16 and bf16 against loops written by hand with torch's own scaler and autocast."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.pool import Pool
from tests.runtime.gradient_cases import data


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def loss_of(out: Tensor, y: Tensor, step: int) -> Tensor:
    """One loss in the third step is so large that its gradients overflow in fp16."""
    return F.cross_entropy(out, y) * (1e6 if step == 3 else 1.0)


def by_hand(steps: int, clip: float, interval: int, k: int = 1) -> dict[str, Any]:
    m = model()
    optimizer = torch.optim.AdamW(m.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    scaler = torch.amp.GradScaler("cpu", growth_interval=interval, init_scale=1024.0)
    x, y = data(8, torch.float32)
    scales, norms, rates = [], [], []
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(k):
            rows = slice(part * 8 // k, (part + 1) * 8 // k)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_of(m(x[rows]), y[rows], step) / k
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if clip:
            norms.append(float(nn.utils.clip_grad_norm_(m.parameters(), clip)))
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= before:
            scheduler.step()
        scales.append(scaler.get_scale())
        rates.append(optimizer.param_groups[0]["lr"])
    return {"state": m.state_dict(), "scales": scales, "norms": norms, "rates": rates}


def converted(steps: int, clip: float, interval: int, k: int = 1, rows: int = 8) -> dict[str, Any]:
    from distify import runtime
    from distify.runtime.state import state

    runtime.init(backend="ddp", precision="fp16", accumulate=k)
    assert state.precision is not None
    scaler = state.precision.scaler
    assert scaler is not None
    scaler.scale, scaler.interval = 1024.0, interval
    m = model()
    optimizer = torch.optim.AdamW(m.parameters(), lr=0.01)
    runtime.prepare(m, optimizer)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    x, y = data(8, torch.float32)
    scales, norms, rates = [], [], []
    for step in range(steps):
        for part in range(k):
            bx, by = runtime.split((x[part * 8 // k : (part + 1) * 8 // k], y[part * 8 // k : (part + 1) * 8 // k]))
            with runtime.accumulate() as window:
                if window.starts:
                    optimizer.zero_grad()
                with runtime.autocast():
                    loss = runtime.mean(loss_of(m(bx), by, step))
                runtime.backward(loss)
                if window.ends:
                    if clip:
                        norms.append(float(runtime.clip_grad_norm_(m.parameters(), clip)))
                    runtime.step(optimizer)
                    runtime.step(scheduler)
        scales.append(scaler.state_dict()["scale"])
        rates.append(optimizer.param_groups[0]["lr"])
    return {"state": m.state_dict(), "scales": scales, "norms": norms, "rates": rates}


def equal(found: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    assert found["scales"] == expected["scales"]
    assert found["rates"] == pytest.approx(expected["rates"])
    for a, b in zip(found["norms"], expected["norms"], strict=True):
        assert a == pytest.approx(b, rel=2e-2) if math.isfinite(b) else not math.isfinite(a)
    for key, value in expected["state"].items():
        assert (found["state"][key] - value).abs().max() < tolerance, key


@pytest.mark.parametrize("clip", [0.0, 0.05])
def test_one_process_equals_the_loop_by_hand(clip: float) -> None:
    """Eight steps: the scale doubles after every second good one, and one overflow halves it and skips."""
    from distify import runtime

    expected = by_hand(8, clip, 2)
    try:
        found = converted(8, clip, 2)
    finally:
        runtime.shutdown()
    assert 2048.0 in expected["scales"]
    assert expected["scales"][3] < expected["scales"][2]
    equal(found, expected, 1e-7)


@pytest.mark.parametrize("k", [1, 2])
def test_ranks_equal_the_loop_by_hand(k: int, pool2: Pool) -> None:
    """The overflow is on all ranks or on one: the step is skipped on all, and the schedule waits."""
    expected = by_hand(8, 0.05, 2, k)
    for found in pool2.run(converted, 8, 0.05, 2, k):
        equal(found, expected, 2e-3)  # AdamW's first steps amplify the rounding of fp16


def one_overflows() -> tuple[list[bool], list[float], float]:
    """Only the last rank's rows overflow."""
    from distify import runtime
    from distify.runtime.state import state

    runtime.init(backend="ddp", precision="fp16")
    assert state.precision is not None
    m = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    runtime.prepare(m, optimizer)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    moved, rates = [], []
    for bad in (False, True, False):
        x = torch.ones(4, 6)
        if bad:
            x[3] = float("inf")
        rows = runtime.split(x)
        before = m.weight.detach().clone()
        optimizer.zero_grad()
        runtime.backward(runtime.mean((rows * m.weight).sum(1).mean() / 1e4))
        runtime.step(optimizer)
        runtime.step(scheduler)
        moved.append(not torch.equal(before, m.weight))
        rates.append(optimizer.param_groups[0]["lr"])
    assert state.precision.scaler is not None
    return moved, rates, state.precision.scaler.state_dict()["scale"]


def test_overflow_on_one_rank_skips_on_all(pool2: Pool) -> None:
    assert pool2.run(one_overflows) == [([True, False, True], [0.05, 0.05, 0.025], 32768.0)] * 2


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 4), nn.Linear(4, 1)


def several_optimizers(overflow: bool) -> tuple[list[float], float]:
    """A backward reaches two optimizers, only one steps, the scale changes, the other steps: nothing is mixed up.

    Everything is fp32 arithmetic with powers of two as scale, so it must equal the unscaled run to rounding.
    """
    from distify import runtime
    from distify.runtime.state import state

    runtime.init(precision="fp16")
    assert state.precision is not None
    scaler = state.precision.scaler
    assert scaler is not None
    scaler.scale, scaler.interval = 16.0, 1
    torch.manual_seed(0)
    m = Two()
    whole = copy.deepcopy(m)
    opts = [[torch.optim.SGD(p.parameters(), lr=0.1) for p in (t.a, t.b)] for t in (m, whole)]
    runtime.prepare(m, *opts[0])
    x, _ = data(8, torch.float32)
    scales = []
    for t, (oa, ob), backward, step in (
        (m, opts[0], runtime.backward, runtime.step),
        (whole, opts[1], lambda loss: loss.backward(), lambda o: o.step()),
    ):
        backward(t.b(t.a(x)).pow(2).mean())
        step(oa)  # the scale doubles before the next backward; b still holds gradients of the old scale
        if t is m:
            scales.append(scaler.scale)
        backward(t.b(t.a(x)).abs().mean())
        if t is m:
            scales.append(scaler.scale)
        nn.utils.clip_grad_norm_(t.b.parameters(), 0.5) if t is whole else runtime.clip_grad_norm_(
            t.b.parameters(), 0.5
        )
        backward(t.b(t.a(x)).mean())  # after unscaling, before the step: brought back to the scale
        step(ob)
        step(oa)
    gap = max((p - q).abs().max().item() for p, q in zip(m.parameters(), whole.parameters(), strict=True))
    runtime.shutdown()
    return scales, gap


def test_gradients_that_outlive_a_change_of_scale() -> None:
    scales, gap = several_optimizers(False)
    assert scales == [16.0, 32.0]
    assert gap < 1e-6


def bf16() -> dict[str, Tensor]:
    from distify import runtime

    runtime.init(backend="ddp", precision="bf16")
    m = model()
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    runtime.prepare(m, optimizer)
    bx, by = runtime.split(data(8, torch.float32))
    for _ in range(3):
        optimizer.zero_grad()
        with runtime.autocast():
            out = m(bx)
            assert out.dtype == torch.bfloat16
            loss = runtime.mean(F.cross_entropy(out, by))
        runtime.backward(loss)
        runtime.step(optimizer)
    return m.state_dict()


def test_bf16_equals_the_loop_by_hand(pool2: Pool) -> None:
    m = model()
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    x, y = data(8, torch.float32)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(m(x), y)
        loss.backward()
        optimizer.step()
    for found in pool2.run(bf16):
        assert max((found[k] - v).abs().max().item() for k, v in m.state_dict().items()) < 1e-3


def test_fp32_has_no_autocast() -> None:
    from distify import runtime

    runtime.init()
    try:
        with runtime.autocast():
            assert not torch.is_autocast_enabled("cpu")
    finally:
        runtime.shutdown()


def test_the_scaler_s_state_is_that_of_torch() -> None:
    from distify.runtime.precision import Scaler

    theirs = torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=7)
    scaler = Scaler()
    scaler.load_state_dict(theirs.state_dict())
    assert scaler.state_dict() == theirs.state_dict()
    theirs.load_state_dict(scaler.state_dict())


def gathered_types() -> list[torch.dtype]:
    from distify import runtime

    runtime.init(precision="bf16")
    x = runtime.split(torch.randn(6, 3))
    half = x.to(torch.bfloat16)
    whole = runtime.gather({"outputs": (half, [half]), "inputs": x.double()})
    return [whole["outputs"][0].dtype, whole["inputs"].dtype, runtime.gather(half).numpy().dtype]


def test_what_leaves_torch_has_the_original_s_type(pool2: Pool) -> None:
    """NumPy knows no bfloat16, and the original computed in single precision."""
    import numpy as np

    for found in pool2.run(gathered_types):
        assert found == [torch.float32, torch.float64, np.dtype("float32")]
