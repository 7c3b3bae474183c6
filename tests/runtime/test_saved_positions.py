"""A run that goes on from a checkpoint prints what the uninterrupted one does, from the end of a pass or its middle."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, Sampler

from distify import runtime
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
        folder, sizes = str(tmp_path / str(k)), ((1, 2), (2, 3), (3, 1), (2, 2))[k]
        if kind == "replacement" and place == (1, 5):
            place = (1, 6)
        before = on(pools, sizes[0], backends[k], kind, folder, place)
        after = on(pools, sizes[1], backends[k - 1], kind, folder, None, True)
        same(before + after, whole)
