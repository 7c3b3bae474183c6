"""`save_state` and `load_state`: written on one backend and number of processes, read on another."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.pool import Pool
from tests.runtime.programs import gap, model, train
from tests.runtime.test_checkpoint import BACKENDS

TOLERANCE = 2e-5


def build(runtime: Any, backend: str, seed: int) -> tuple[Any, Any, Any]:
    """Groups of different rates, frozen and unused parts, tied weights; a scheduler."""
    runtime.init(**{**BACKENDS, "hybrid": {"backend": "fsdp", "shard_size": 2}}.get(backend, {}))
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


class Extra(nn.Module):
    """Keeps what is no tensor in its state, shares a buffer, and has an empty one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros(2))
        self.register_buffer("also", self.seen)
        self.register_buffer("none", torch.zeros(0, 3))
        self.calls = {"count": 0, "means": torch.zeros(2)}

    def get_extra_state(self) -> Any:
        return self.calls

    def set_extra_state(self, state: Any) -> None:
        self.calls = state


def many(backend: str, folder: str) -> list[Any]:
    """Two models and optimizers, an averaged model, an optimizer with lists of tensors in its state."""
    from distify import runtime

    def made(seed: int) -> list[Any]:
        runtime.init(**BACKENDS[backend])
        torch.manual_seed(seed)
        one, two = Extra(), nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
        average = torch.optim.swa_utils.AveragedModel(two)
        first, second = torch.optim.Adagrad(one.parameters(), 0.1), torch.optim.SGD(two.parameters(), 0.1, momentum=0.9)
        runtime.prepare(one, first)
        runtime.prepare(two, second)
        return [one, two, average, first, second]

    one, two, average, first, second = made(0)
    (x,) = runtime.split((torch.randn(5, 3),))
    runtime.backward(runtime.mean(one.layer(x).pow(2).mean()) + runtime.mean(two(x).pow(2).mean()))
    runtime.step(first)
    runtime.step(second)
    one.seen += 3
    one.calls = {"count": 7, "means": torch.ones(2)}
    runtime.save_state(folder, critic=two, average=average)
    states = [copy.deepcopy(dict(runtime.state_dict(item))) for item in (one, two, average, first, second)]
    runtime.shutdown()
    items = made(1)
    runtime.load_state(folder, average=items[2])
    found = [gap(dict(runtime.state_dict(item)), state) for item, state in zip(items, states)]
    return [*found, items[0].calls["count"], items[0].also.data_ptr() == items[0].seen.data_ptr()]


@pytest.mark.parametrize("backend", ["ddp", "fsdp"])
def test_several_models_and_odd_states(backend: str, tmp_path: Path, pool2: Pool) -> None:
    assert pool2.run(many, backend, str(tmp_path)) == [[*[{"": 0.0}] * 5, 7, True]] * 2


def apart(folder: str) -> list[Any]:
    """Ranks in folders of their own take rank 0's; then rank 1 does not see it, as on another machine."""
    from distify import runtime

    runtime.init()
    mine, before, there = Path(folder) / str(runtime.rank()), Path.cwd(), os.path.isdir
    mine.mkdir()
    os.chdir(mine)
    found: list[Any] = []
    try:
        made = runtime.save_state("states", a=1)
        found += [made, runtime.latest("states") == made, runtime.load_state("states")]
        if runtime.rank() == 1:
            os.path.isdir = lambda path: False
        for call in (runtime.save_state, runtime.load_state):
            with pytest.raises(runtime.saved_files.CheckpointError) as error:
                call("states")
            found.append(str(error.value))
    finally:
        os.chdir(before)
        os.path.isdir = there
    return found


def test_a_folder_that_one_rank_does_not_see(tmp_path: Path, pool2: Pool) -> None:
    first, second = pool2.run(apart, str(tmp_path))
    assert first == second
    assert first[:3] == [str(tmp_path / "0" / "states" / "state-00000001"), True, {"a": 1}]
    for message in first[3:]:
        assert "rank 1: " in message
        assert "must be one that all share" in message
