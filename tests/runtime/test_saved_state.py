"""`save_state` and `load_state`: written on one backend and number of processes, read on another."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.pool import Pool
from tests.runtime.programs import gap, model, train
from tests.runtime.test_checkpoint import BACKENDS

TOLERANCE = 2e-5


def build(runtime: Any, backend: str, seed: int) -> tuple[Any, Any, Any]:
    """Groups of different rates, frozen and unused parts, tied weights; a scheduler."""
    runtime.init(**BACKENDS.get(backend, {}))
    m = model(seed)
    trained = [(n, p) for n, p in m.named_parameters() if "unused" not in n and p.requires_grad]
    heavy = [p for n, p in trained if p.dim() > 1]
    rest = [p for n, p in trained if p.dim() < 2]
    frozen = list(m.frozen.parameters())
    groups = [{"params": heavy, "lr": 0.01}, {"params": rest + frozen, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, 0.02, weight_decay=0.1)
    runtime.prepare(m, optimizer)
    return m, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


def leg(backend: str, folder: str, seed: int, load: bool = True) -> tuple[Any, ...]:
    """One part of a run: load, train, save; what it prints, and the state in the original's form before and after."""
    from distify import runtime

    m, optimizer, scheduler = build(runtime, backend, seed)
    found = runtime.load_state(folder, scheduler=scheduler) if load else {"epoch": 0}
    before = copy.deepcopy((dict(runtime.state_dict(m)), runtime.state_dict(optimizer)))
    drawn = torch.rand(2).tolist()
    shown = train(runtime, m, optimizer, 2)
    runtime.step(scheduler)
    runtime.save_state(folder, scheduler=scheduler, epoch=found["epoch"] + 1, history=[shown, None, {"a": (1, 2.5)}])
    after = dict(runtime.state_dict(m)), runtime.state_dict(optimizer)
    return found["epoch"], drawn, shown, before, after


ROUTES = {
    "ddp": ("ddp", "fsdp", "single", "zero2"),
    "fsdp": ("fsdp", "zero3", "single", "ddp"),
    "zero1": ("zero1", "zero2", "single", "fsdp"),
    "zero3": ("zero3", "ddp", "single", "zero1"),
    "zero2": ("zero2", "fsdp", "single", "zero3"),
}


def on(pools: dict[int, Pool], size: int, *args: Any) -> tuple[Any, ...]:
    if size == 1:
        from distify import runtime

        try:
            return leg(*args)
        finally:
            runtime.shutdown()
    found = pools[size].run(leg, *args)
    assert all(one[:3] == found[0][:3] for one in found)
    return found[0]


@pytest.mark.parametrize("route", ROUTES)
def test_a_state_travels_over_backends_and_numbers_of_processes(
    route: str, tmp_path: Path, pool2: Pool, pool3: Pool
) -> None:
    pools, folder, plain = {2: pool2, 3: pool3}, str(tmp_path / "state"), str(tmp_path / "plain")
    for k, (backend, size) in enumerate(zip(ROUTES[route], (2, 3, 1, 2))):
        expected = on(pools, 1, "single", plain, k, k > 0)
        if k == 0:
            on(pools, size, backend, folder, k, False)
            continue
        epoch, drawn, shown, before, after = on(pools, size, backend, folder, k + 5)
        assert epoch == k
        assert drawn == expected[1]
        assert shown == pytest.approx(expected[2], abs=1e-4)
        for found, theirs in ((before, expected[3]), (after, expected[4])):
            places = gap(found, theirs)
            assert len(places) == 1, places
            assert places[""] <= TOLERANCE
    assert sorted(path.name for path in Path(folder).iterdir()) == ["state-00000003", "state-00000004"]
