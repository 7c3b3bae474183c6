"""A run that goes on from a checkpoint prints what the uninterrupted one does, from the end of a pass or its middle."""

from __future__ import annotations

import gc
import random
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler

from distify import runtime
from distify.runtime.saved_files import CheckpointError
from distify.runtime.state import DistifyError
from tests.pool import Pool
from tests.runtime.test_checkpoint import BACKENDS

Loader = Any


class Items(Dataset):
    def __init__(self, size: int = 23) -> None:
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(size, 5, generator=generator)
        self.y = torch.randint(0, 3, (size,), generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, k: int) -> Any:
        return self.x[k], self.y[k]


class Stream(IterableDataset):
    """Shuffles as it goes, from Python's stream."""

    def __iter__(self) -> Any:
        items = Items()
        order = list(range(len(items)))
        random.shuffle(order)
        return (items[k] for k in order)


class Lazy(Sampler):
    """Draws each index when it is asked for, from NumPy's stream, as the steps in between do too."""

    def __iter__(self) -> Any:
        return (int(np.random.randint(23)) for _ in range(23))

    def __len__(self) -> int:
        return 23


LOADERS: dict[str, Any] = {
    "shuffled": lambda: DataLoader(Items(), 4, shuffle=True),
    "own generator": lambda: DataLoader(Items(), 4, shuffle=True, generator=torch.Generator().manual_seed(9)),
    "replacement": lambda: DataLoader(Items(), 4, sampler=RandomSampler(Items(), True, 30), drop_last=True),
    "workers": lambda: DataLoader(Items(), 4, shuffle=True, num_workers=2, persistent_workers=True),
    "collate": lambda: DataLoader(Items(), 4, shuffle=True, collate_fn=_stack),
    "iterable": lambda: DataLoader(Stream(), 4),
}


def _stack(rows: Any) -> Any:
    return torch.stack([x for x, _ in rows]), torch.stack([y for _, y in rows])


class Net(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.dropout(self.norm(torch.tanh(self.first(x)))))


def run(
    options: dict[str, Any], kind: str, folder: str, save_at: tuple[int, int] | None, load: bool = False, **extra: Any
) -> list[Any]:
    """A program of three epochs; saves after a step, or at an epoch's end (step -1), and stops there."""
    runtime.init(**options)
    torch.manual_seed(5 + load)
    random.seed(6 + load)
    np.random.seed(7 + load)
    loader = runtime.shard(LOADERS[kind]())
    model = Net(extra.get("dropout", 0.0))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.5)
    runtime.prepare(model, optimizer)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    first, offset, total = 0, 0, 0.0
    shown: list[Any] = []
    if load:
        found = runtime.load_state(folder, scheduler=scheduler)
        first, offset, total = found["epoch"], found["step"] + 1, found["total"]
    for epoch in range(first, 3):
        if offset >= 0:
            for step, (x, y) in enumerate(loader, offset):
                with runtime.accumulate() as window:
                    if window.starts:
                        optimizer.zero_grad()
                    noise = runtime.draw(torch.randn_like, x)
                    loss = runtime.mean(F.cross_entropy(model(x + 0.1 * noise), y))
                    runtime.backward(loss)
                    if window.ends:
                        runtime.step(optimizer)
                total += loss.item()
                shown.append((epoch, step, loss.item(), random.random(), float(np.random.rand())))
                if (epoch, step) == save_at:
                    runtime.save_state(folder, scheduler=scheduler, epoch=epoch, step=step, total=total)
                    if not extra.get("on"):
                        return shown
        runtime.step(scheduler)
        shown.append((epoch, total, torch.rand(()).item(), optimizer.param_groups[0]["lr"]))
        offset, total = 0, 0.0
        if (epoch, -1) == save_at:
            runtime.save_state(folder, scheduler=scheduler, epoch=epoch + 1, step=-1, total=0.0)
            if not extra.get("on"):
                return shown
    return shown


def on(pools: dict[int, Pool], size: int, *args: Any, **extra: Any) -> list[Any]:
    if size == 1:
        try:
            return run({}, *args[1:], **extra)
        finally:
            runtime.shutdown()
    return pools[size].run(run, *args, **extra)[0]


def same(found: list[Any], expected: list[Any], tolerance: float = 1e-4) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        assert one == pytest.approx(other, abs=tolerance)


PLACES = [(0, -1), (1, 2), (0, 0), (1, 5)]


@pytest.mark.parametrize("kind", LOADERS)
def test_a_resumed_run_prints_what_the_uninterrupted_one_does(
    kind: str, tmp_path: Path, pool2: Pool, pool3: Pool
) -> None:
    pools = {2: pool2, 3: pool3}
    backends = list(BACKENDS.values())
    whole = on(pools, 1, {}, kind, str(tmp_path / "none"), None)
    for k, place in enumerate(PLACES):
        if kind != "shuffled" and k in (0, 3):
            continue
        folder, sizes = str(tmp_path / str(k)), ((1, 2), (2, 3), (3, 1), (2, 2))[k]
        before = on(pools, sizes[0], backends[k], kind, folder, place)
        after = on(pools, sizes[1], backends[k - 1], kind, folder, None, True)
        same(before + after, whole)


def exactly(folder: str) -> list[bool]:
    """With the same number of processes dropout and fp16's loss scale go on exactly, inside windows and per device."""
    found = []
    for k, options in enumerate(
        (
            {"backend": "fsdp"},
            {"backend": "ddp", "precision": "fp16", "accumulate": 2},
            {"backend": "deepspeed", "zero_stage": 2, "batch": "per-device"},
        )
    ):
        place, path = (1, 1), f"{folder}/{k}"
        whole = run(options, "shuffled", path, place, dropout=0.3, on=True)
        runtime.shutdown()
        rest = run(options, "shuffled", path, None, True, dropout=0.3)
        runtime.shutdown()
        found.append(rest == whole[-len(rest) :] and 0 < len(rest) < len(whole))
    return found


def test_the_same_number_of_processes_goes_on_exactly(tmp_path: Path, pool2: Pool) -> None:
    assert pool2.run(exactly, str(tmp_path)) == [[True, True, True]] * 2


def before_the_first_forward(folder: str) -> bool:
    """Streams that no forward has begun yet begin as in the run that saved."""
    shown = []
    for seed in (4, 9):
        runtime.init()
        torch.manual_seed(seed)
        model = Net(0.5)
        runtime.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
        if seed == 4:
            runtime.save_state(folder)
        else:
            runtime.load_state(folder)
        shown.append(model(runtime.split(torch.ones(6, 5))).tolist())
        runtime.shutdown()
    return shown[0] == shown[1]


def test_private_streams_begin_as_they_would_have(tmp_path: Path, pool2: Pool) -> None:
    assert pool2.run(before_the_first_forward, str(tmp_path)) == [True, True]


def prepared() -> nn.Module:
    runtime.init()
    model = nn.Linear(5, 3)
    runtime.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
    return model


@pytest.mark.usefixtures("alone")
def test_loaders_made_after_loading_go_on_too(tmp_path: Path) -> None:
    def epoch(stop: int | None) -> list[Any]:
        loader, found = runtime.shard(DataLoader(Items(), 4, shuffle=True)), []
        for k, (x, _) in enumerate(loader):
            found.append(x.sum().item())
            if k == stop:
                runtime.save_state(tmp_path)
        return found

    prepared()
    torch.manual_seed(3)
    epoch(None)
    whole = epoch(2)
    runtime.shutdown()
    prepared()
    runtime.load_state(tmp_path)
    assert epoch(None) == whole[3:]
    assert len(epoch(None)) == len(whole)


@pytest.mark.usefixtures("alone")
def test_a_pass_that_can_t_be_gone_on_with_is_an_error(tmp_path: Path) -> None:
    prepared()
    loader = runtime.shard(DataLoader(Items(), 4, sampler=Lazy()))
    for k, _ in enumerate(loader):
        np.random.rand(2)  # what the loop draws comes between what the sampler draws
        if k == 3:
            runtime.save_state(tmp_path / "lazy")
            break
    passes = iter(loader)
    with pytest.raises(CheckpointError, match="which runs now too"):
        runtime.load_state(tmp_path / "lazy")
    del passes
    runtime.load_state(tmp_path / "lazy")
    with pytest.raises(DistifyError, match="draws other samples than before"):
        iter(loader)
    one, two = iter(loader), iter(loader)
    next(one)
    next(two)
    with pytest.raises(DistifyError, match="runs more than once"):
        runtime.save_state(tmp_path)
    del one, two
    runtime.shutdown()
    prepared()
    larger = runtime.shard(DataLoader(Items(50), 4, shuffle=True))
    with pytest.raises(CheckpointError, match="with 23 samples in batches of 4; here are 50 in batches of 4"):
        runtime.load_state(tmp_path / "lazy")
    assert len(larger) == 13


class Reshuffled(Sampler):
    """Counts its passes, and shuffles its own list once more in each."""

    def __init__(self) -> None:
        self.order, self.passes, self.rng = list(range(23)), 0, np.random.default_rng(2)

    def __iter__(self) -> Any:
        self.passes += 1
        random.shuffle(self.order)
        shift = int(self.rng.integers(23))
        return iter([(k + self.passes * shift) % 23 for k in self.order])

    def __len__(self) -> int:
        return 23


def samples(batch: Any) -> float:
    return round(runtime.sum(batch[0].sum(), of=batch[0]).item(), 3)


def zipped(first: Any, second: Any) -> Any:
    """Both begin before either draws."""
    while True:
        for one, other in zip(first, second):
            yield samples(one), samples(other)


def refilled(first: Any, second: Any) -> Any:
    """One is drawn from by hand, with other draws in between."""
    rest = iter(second)
    while True:
        for batch in first:
            try:
                other = next(rest)
            except StopIteration:
                rest = iter(second)
                other = torch.rand(1).tolist(), next(rest)[0]
            yield samples(batch), other[0] if isinstance(other[0], list) else samples(other)


LOOPS = {
    "zip": (zipped, lambda: DataLoader(Items(9), 4, shuffle=True)),
    "refilled": (refilled, lambda: DataLoader(Items(11), 4, shuffle=True)),
    "samplers": (zipped, lambda: DataLoader(Items(), batch_sampler=BatchSampler(Reshuffled(), 4, False))),
    "generator inside": (
        zipped,
        lambda: DataLoader(
            Items(), batch_sampler=BatchSampler(RandomSampler(Items(), generator=torch.Generator()), 4, False)
        ),
    ),
}


def loops(folder: str, names: list[str]) -> list[str]:
    """For each loop and place whether several runs print what one does."""
    wrong = []
    for name in names:
        loop, other = LOOPS[name]
        shown: list[list[Any]] = []
        for legs in ((9,), (1, 3, 5)):
            shown.append([])
            for k, steps in enumerate(legs):
                runtime.init()
                torch.manual_seed(3 + k)
                random.seed(4 + k)
                first, second = runtime.shard(DataLoader(Items(), 4, shuffle=True)), runtime.shard(other())
                if k:
                    runtime.load_state(folder)
                numbers = loop(first, second)
                for _ in range(steps):
                    shown[-1].append((*next(numbers), random.random()))
                if k + 1 < len(legs):
                    runtime.save_state(folder)
                del numbers
                runtime.shutdown()
        wrong += [f"{name} {k}" for k, found in enumerate(shown) if found != shown[0]]
    return wrong


def test_loops_over_several_loaders_and_samplers_that_change(tmp_path: Path, pool2: Pool) -> None:
    runtime.shutdown()
    assert loops(str(tmp_path / "one"), list(LOOPS)) == []
    assert pool2.run(loops, str(tmp_path / "two"), ["samplers"]) == [[], []]


@pytest.mark.usefixtures("alone")
def test_passes_that_are_left_are_told_of(tmp_path: Path) -> None:
    prepared()
    loader = runtime.shard(DataLoader(Items(), 4, shuffle=True))
    for k, _ in (bar := enumerate(loader)):
        if k == 2:
            break
    runtime.save_state(tmp_path)
    with pytest.warns(UserWarning, match="a pass over the loader over Items that had come to batch 3"):
        next(iter(loader))
    del bar, loader
    runtime.shutdown()
    prepared()
    other = runtime.shard(DataLoader(list(range(5)), 4))  # type: ignore[arg-type]
    runtime.load_state(tmp_path)  # the other loader may be made later
    with pytest.warns(UserWarning, match="Items with 23 samples in batches of 4, but no such loader has been sharded"):
        runtime.save_state(tmp_path)
    assert len(other) == 2


@pytest.mark.usefixtures("alone")
def test_a_loader_made_later_beside_one_of_its_kind(tmp_path: Path) -> None:
    def run() -> list[float]:
        held = runtime.shard(DataLoader(Items(11), 4))
        if runtime.latest(tmp_path):
            runtime.load_state(tmp_path)
        found = []
        for k, batch in enumerate(runtime.shard(DataLoader(Items(), 4, shuffle=True))):
            found.append(samples(batch))
            if k == 1 and not runtime.latest(tmp_path):
                runtime.save_state(tmp_path)
        assert len(held) == 3
        return found

    prepared()
    whole = run()
    runtime.shutdown()
    prepared()
    assert run() == whole[2:]


@pytest.mark.parametrize("kind", ["workers", "iterable"])
@pytest.mark.usefixtures("alone")
def test_a_loader_is_gone_with_its_last_name(kind: str) -> None:
    """Left to a collection, workers would take part in it: it waits for them, for seconds."""
    runtime.init()
    gc.collect()
    gc.disable()
    try:
        loader = runtime.shard(LOADERS[kind]())
        for _ in loader:
            pass
        next(iter(loader))
        gone = [weakref.ref(loader), weakref.ref(loader._iterator or loader)]
        del loader
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()
