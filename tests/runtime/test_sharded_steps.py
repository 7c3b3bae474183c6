"""Accumulation windows, the loss scale, and the trace on backends that cut gradients into parts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.pool import Pool
from tests.runtime.programs import Original, gap, model
from tests.runtime.test_checkpoint import BACKENDS

ROWS, BATCH, WINDOW = 22, 4, 3  # windows of 12 and of 10 rows
TOLERANCE = 2e-5


def build(fused: bool = False) -> tuple[Any, Any]:
    m = model()
    params = [p for n, p in m.named_parameters() if "unused" not in n]
    return m, torch.optim.AdamW(params, 0.02, weight_decay=0.1, fused=fused)


def loader(batch: int) -> Any:
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(ROWS, 6, generator=generator), torch.randint(0, 4, (ROWS,), generator=generator)
    return DataLoader(TensorDataset(x, y), batch_size=batch, shuffle=True, generator=torch.Generator().manual_seed(2))


def epochs(r: Any, m: Any, optimizer: Any, batches: Any, by: bool) -> Any:
    norms = []
    for _ in range(2):
        for x, y in batches:
            with r.accumulate() as window:
                if window.starts:
                    optimizer.zero_grad()
                out = m(x)
                if by:
                    keep = (y != 1).float()
                    loss = (F.cross_entropy(out, y, reduction="none") * keep).sum() / keep.sum()
                    loss = r.mean(loss, by=keep.sum())
                else:
                    penalty = sum(p.pow(2).sum() for n, p in r.full(m.named_parameters()) if n.startswith("head"))
                    loss = r.mean(F.cross_entropy(out, y)) + 0.01 * r.sum(out.pow(2).sum()) + 0.1 * penalty
                r.backward(loss)
                if window.ends:
                    norms.append(r.clip_grad_norm_(m.parameters(), 0.5).item())
                    r.step(optimizer)
    return norms, r.state_dict(m), r.state_dict(optimizer)


def windows(backend: str) -> list[dict[str, Any]]:
    from distify import runtime

    found = []
    for by in (False, True):
        m, optimizer = build()
        expected = epochs(Original, m, optimizer, loader(BATCH * WINDOW), by)
        runtime.init(**BACKENDS[backend], accumulate=WINDOW)
        m, optimizer = build()
        batches = runtime.shard(loader(BATCH))
        runtime.prepare(m, optimizer)
        found.append(gap(epochs(runtime, m, optimizer, batches, by), expected))
        runtime.shutdown()
    return found


@pytest.mark.parametrize("backend", ["fsdp", "zero1", "zero2", "zero3"])
def test_a_window_equals_the_original_s_batch_of_its_rows(backend: str, pool2: Pool) -> None:
    for found in pool2.run(windows, backend):
        assert [len(places) for places in found] == [1, 1], found
        assert max(places[""] for places in found) <= TOLERANCE


def scaled(backend: str, spoiled: int, fused: bool) -> tuple[Any, ...]:
    """A loss scale on fp32; in one step one rank's gradients overflow."""
    from distify import runtime
    from distify.runtime.precision import Scaler
    from distify.runtime.state import state

    def steps(r: Any, m: Any, optimizer: Any, skip: int) -> Any:
        for k, (x, y) in enumerate([*loader(6)][:3]):
            if k == skip and r is Original:
                continue
            x, y = r.split((x, y))
            optimizer.zero_grad()
            loss = F.cross_entropy(m(x), y)
            if k == skip and runtime.rank() == spoiled:
                loss = loss * float("inf")
            r.backward(r.mean(loss))
            norms.append(r.clip_grad_norm_(m.parameters(), 0.5).item())
            r.step(optimizer)
            r.step(scheduler)
        return r.state_dict(m), r.state_dict(optimizer), scheduler.last_epoch

    norms: list[float] = []
    m, optimizer = build(fused)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    expected = steps(Original, m, optimizer, 1)
    runtime.init(**BACKENDS[backend])
    assert state.precision is not None
    state.precision.scaler = Scaler(scale=1024.0)
    m, optimizer = build(fused)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    runtime.prepare(m, optimizer)
    found = steps(runtime, m, optimizer, 1)
    return gap(found, expected), state.precision.scaler.state_dict()["scale"]


FUSED = [("ddp", True), ("fsdp", True)]  # where the step itself reads that it is to change nothing


@pytest.mark.parametrize(
    ("backend", "fused"), [*((name, False) for name in ("ddp", "fsdp", "zero1", "zero2", "zero3")), *FUSED]
)
def test_an_overflow_on_one_rank_skips_the_step_on_all(backend: str, fused: bool, pool2: Pool) -> None:
    for found, scale in pool2.run(scaled, backend, 1, fused):
        assert len(found) == 1, found
        assert found[""] <= TOLERANCE
        assert scale == 512.0


def traced(backend: str, file: str) -> None:
    from distify import runtime

    os.environ["DISTIFY_TRACE"] = file
    try:
        runtime.init(**BACKENDS[backend])
        m, optimizer = build()
        batches = runtime.shard(loader(6))
        runtime.prepare(m, optimizer)
        for x, y in batches:
            optimizer.zero_grad()
            runtime.backward(runtime.mean(F.cross_entropy(m(x), y)))
            runtime.step(optimizer)
    finally:
        del os.environ["DISTIFY_TRACE"]


@pytest.mark.parametrize("backend", ["fsdp", "zero1", "zero2", "zero3"])
def test_the_trace_holds_global_norms(backend: str, tmp_path: Path, pool2: Pool) -> None:
    lines = {}
    for name in ("ddp", backend):
        pool2.run(traced, name, str(tmp_path / name))
        lines[name] = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
    assert len(lines["ddp"]) == 8
    for mine, theirs in zip(lines[backend], lines["ddp"], strict=True):
        assert mine.keys() == theirs.keys()
        assert all(abs(mine[key] - theirs[key]) <= 1e-5 for key in mine)
        assert mine.get("grad_norm", 1.0) > 0
