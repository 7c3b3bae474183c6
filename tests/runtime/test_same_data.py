"""Loaders that differ by rank are errors; statistics of a model that nobody trains are those of whole batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from tests.pool import Pool


class Items(IterableDataset[Tensor]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[Tensor]:
        return iter(torch.ones(self.count, 6).unbind())


def loader(kind: str, rank: int) -> DataLoader[Any]:
    whole = TensorDataset(torch.arange(12.0))
    if kind == "longer":
        return DataLoader(TensorDataset(torch.ones(12 + 4 * rank)), batch_size=4)
    if kind == "iterable":
        return DataLoader(Items(12 + 4 * rank), batch_size=4)
    if kind == "short batch":
        return DataLoader(Items(12 + rank), batch_size=8)
    if kind == "other data":
        return DataLoader(Items(12) if rank else whole, batch_size=4)
    if kind == "generator":
        return DataLoader(whole, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(rank))
    if kind == "sampler":
        return DataLoader(whole, batch_sampler=[[0, 1], [2, 3 + rank]])
    if kind == "more batches":
        return DataLoader(whole, batch_sampler=[[0, 1]] * (2 + rank))
    sampler = {"same sampler": [[0, 1], [2, 3]], "same names": [["a", "b"]]}[kind]
    return DataLoader({"a": 1.0, "b": 2.0} if kind == "same names" else whole, batch_sampler=sampler)  # type: ignore[arg-type]


def read(kind: str) -> str:
    from distify import runtime

    runtime.init()
    total = 0
    try:
        for batch in runtime.shard(loader(kind, runtime.rank())):
            held = batch if isinstance(batch, Tensor) else batch[0]
            total += int(runtime.sum(torch.tensor(1.0 * len(held)), of=held).item())
    except runtime.state.DistifyError as error:
        return f"{type(error).__name__}: {error}"
    return f"{total} rows"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("longer", "over TensorDataset has 12 samples in batches of 4 on rank 0, 16 samples in batches of 4 on rank 1"),
        ("iterable", "after 3 batches rank 0 has no more, rank 1 has a batch of 4 rows"),
        ("short batch", "after 1 batches rank 0 has a batch of 4 rows, rank 1 has a batch of 5 rows"),
        ("other data", "rank 0 begins a pass over the loader over TensorDataset, rank 1 over the loader over Items"),
        ("generator", "Seed it with the same number on all ranks"),
        ("sampler", "batch 2 of the loader over TensorDataset holds other samples on rank 1 than on rank 0"),
        ("more batches", "after 2 batches rank 0 has no more, rank 1 has a batch of 2 rows"),
    ],
)
def test_ranks_that_read_different_batches(kind: str, words: str, pool2: Pool) -> None:
    first, second = pool2.run(read, kind)
    assert first == second
    assert first.startswith("LoadersDiffer: ")
    assert words in first
    assert kind in ("other data", "generator") or "All ranks must read the same data in the same order" in first


def test_on_three(pool3: Pool) -> None:
    for kind, words in (("longer", "16 samples in batches of 4 on rank 1"), ("more batches", "rank 0 has no more")):
        first, *others = pool3.run(read, kind)
        assert words in first
        assert others == [first] * 2


def test_ranks_that_read_the_same_batches(pool2: Pool) -> None:
    assert pool2.run(read, "same sampler") == ["4 rows"] * 2
    assert pool2.run(read, "same names") == ["2 rows"] * 2


def recalibrated(rows: int) -> tuple[list[float], list[float]]:
    from distify import runtime

    runtime.init()
    data = torch.arange(float(rows)).reshape(-1, 1).square() + torch.arange(3.0)
    layer = nn.BatchNorm1d(3)
    with torch.no_grad():
        for (x,) in runtime.shard(DataLoader(TensorDataset(data), batch_size=4)):
            layer(x)
        layer(data)  # outside of any loop over slices: all ranks hold the same
    return layer.running_mean.tolist(), layer.running_var.tolist()  # type: ignore[union-attr, operator]


def test_batchnorm_that_nobody_trains_sees_whole_batches(pool2: Pool, pool3: Pool) -> None:
    data = torch.arange(11.0).reshape(-1, 1).square() + torch.arange(3.0)
    layer = nn.BatchNorm1d(3)
    for x in (*data.split(4), data):
        layer(x)
    for mean, variance in (*pool2.run(recalibrated, 11), *pool3.run(recalibrated, 11)):
        torch.testing.assert_close(torch.tensor(mean), layer.running_mean)
        torch.testing.assert_close(torch.tensor(variance), layer.running_var)
