"""`cycle`: later rounds yield the batches of the first, and reductions and windows know where they are."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from distify import runtime
from tests.pool import Pool


def loader(n: int, batch: int) -> DataLoader[tuple[torch.Tensor, ...]]:
    return DataLoader(TensorDataset(torch.arange(float(n))), batch_size=batch, shuffle=True)


def rounds(n: int, batch: int, steps: int) -> list[float]:
    """The mean of each of some batches; both loaders draw their order from one generator."""
    runtime.init()
    torch.manual_seed(0)
    one, two = runtime.shard(loader(n, batch)), runtime.shard(loader(n, batch))
    pairs = zip(one, runtime.cycle(two))
    found = [runtime.mean(y.mean(), of=y).item() for _, (y,) in pairs]
    return found + [runtime.mean(x.mean()).item() for (x,) in itertools.islice(runtime.cycle(one), steps)]


def expected(n: int, batch: int, steps: int) -> list[float]:
    torch.manual_seed(0)
    one, two = loader(n, batch), loader(n, batch)
    pairs = zip(one, itertools.cycle(two))
    found = [y.mean().item() for _, (y,) in pairs]
    return found + [x.mean().item() for (x,) in itertools.islice(itertools.cycle(one), steps)]


def test_the_same_batches_again(pool2: Pool, pool3: Pool) -> None:
    for pool in (pool2, pool3):
        for found in pool.run(rounds, 10, 4, 8):
            assert found == pytest.approx(expected(10, 4, 8))


def windows() -> tuple[list[bool], list[float]]:
    """Where windows of four end in two rounds of six batches, and the weights of their means."""
    runtime.init(accumulate=4)
    ends, weights = [], []
    for (x,) in itertools.islice(runtime.cycle(runtime.shard(loader(22, 4))), 12):
        with runtime.accumulate() as window:
            w = torch.zeros((), requires_grad=True)
            runtime.backward(runtime.mean((x * 0 + w).mean()))
            assert w.grad is not None
            weights.append(w.grad.item())
            ends.append(window.ends)
    return ends, weights


def test_windows_end_where_a_round_does(pool2: Pool) -> None:
    ends, weights = pool2.run(windows)[0]
    assert ends == [False, False, False, True, False, True] * 2
    assert weights == pytest.approx([1 / 4] * 4 + [4 / 6, 2 / 6] + [1 / 4] * 4 + [4 / 6, 2 / 6])


def test_nothing_is_gone_round_once(pool2: Pool) -> None:
    assert pool2.run(empty) == [[], []]


def empty() -> list[int]:
    runtime.init()
    return list(runtime.cycle([]))
