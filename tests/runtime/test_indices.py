"""Sizes of the batches of a pass are those that the loader makes, and are told without a list."""

from __future__ import annotations

import tracemalloc

import pytest
import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from distify.runtime.indices import Slices


def slices(sampler: BatchSampler, ranks: int, per_device: bool) -> Slices:
    return Slices(sampler, 0, ranks, whole=False, per_device=per_device, ahead=False)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("per_device", [False, True])
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("samples", [0, 1, 6, 12, 29])
def test_sizes_are_those_of_the_sampler(samples: int, ranks: int, per_device: bool, drop_last: bool) -> None:
    sampler = BatchSampler(SequentialSampler(range(samples)), 6, drop_last)
    made = [len(index) for index in sampler]
    step = ranks if per_device else 1
    expected = [sum(made[k : k + step]) for k in range(0, len(made), step)]
    found = slices(sampler, ranks, per_device).totals()
    assert found is not None
    assert list(found) == expected
    assert found[1:3] == expected[1:3]
    assert len(found) == len(expected)
    with pytest.raises(IndexError):
        found[len(expected)]


def test_a_pass_without_end_takes_no_memory() -> None:
    draws = RandomSampler(torch.zeros(5), replacement=True, num_samples=10**10)  # type: ignore[arg-type]
    tracemalloc.start()
    found = slices(BatchSampler(draws, 2, False), 2, False).totals()
    assert found is not None
    assert (len(found), found[10**9]) == (5 * 10**9, 2)
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()
