"""Which part of a batch belongs to which sample, and the cut; all ranks played in one process."""

from __future__ import annotations

import re
from collections import UserDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence

from distify.runtime.batches import counts
from distify.runtime.collate import WholeCollate, take
from distify.runtime.slicing import by_size


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 1))
def test_the_ranks_rows_put_together_are_the_batch(rows: int, ranks: int, dim: int) -> None:
    shape = (rows, 3) if dim == 0 else (3, rows)
    whole = torch.arange(rows * 3).view(shape)
    cuts = [take(whole, by_size(whole, dim), rank, ranks) for rank in range(ranks)]
    held = counts(rows, ranks)
    assert sum(held) == rows
    assert torch.equal(torch.cat([c.batch.narrow(dim, 0, n) for c, n in zip(cuts, held)], dim), whole)
    for c, n in zip(cuts, held):
        assert c.local == c.batch.shape[dim] == max(n, 1)
        if n == 0:
            assert torch.equal(c.batch, whole.narrow(dim, 0, 1))


@dataclass(frozen=True)
class Batch:
    x: torch.Tensor
    names: list[str]
    size: int


class Encoding(UserDict):
    pass


def as_dataclass(samples: list[int]) -> Batch:
    return Batch(torch.tensor(samples), [str(s) for s in samples], len(samples))


def as_mapping(samples: list[int]) -> Encoding:
    return Encoding(ids=torch.tensor(samples), kind="words")


def as_targets(samples: list[int]) -> Any:
    """As detection does it: pictures stacked, one dict of another size for each."""
    return torch.stack([torch.zeros(3)] * len(samples)), [{"boxes": torch.ones(s + 1, 4)} for s in samples]


def cuts(collate: Any, samples: list[Any], ranks: int = 2) -> list[Any]:
    return [WholeCollate(collate, rank, ranks)(list(samples)).batch for rank in range(ranks)]


def test_objects_keep_their_class() -> None:
    one, two = cuts(as_dataclass, [5, 6, 7])
    assert type(one) is Batch
    assert (one.x.tolist(), one.names, one.size) == ([5, 6], ["5", "6"], 2)
    assert (two.x.tolist(), two.names, two.size) == ([7], ["7"], 1)


def test_mappings_keep_their_class() -> None:
    one, two = cuts(as_mapping, [5, 6, 7])
    assert type(one) is Encoding
    assert one["ids"].tolist() + two["ids"].tolist() == [5, 6, 7]
    assert two["kind"] == "words"


def test_one_dict_per_sample() -> None:
    for samples in ([2, 0, 1], [1, 1]):  # two pictures with two boxes each: nothing may be told from sizes
        one, two = cuts(as_targets, samples)
        boxes = [len(t["boxes"]) for part in (one, two) for t in part[1]]
        assert boxes == [s + 1 for s in samples]
        assert len(one[0]) == len(one[1])


@pytest.mark.parametrize(
    ("collate", "message"),
    [
        (lambda s: pack_sequence([torch.ones(n + 2) for n in s], enforce_sorted=False), r"can't be told"),
        (lambda s: torch.ones(len(s), len(s)), r"\(3, 3\) becomes \(4, 4\)"),
        (lambda s: torch.cat([torch.ones(n) for n in s]), r"two samples make"),
        (lambda s: {f"key{k}": 1 for k in range(len(s))}, r"depends on the samples"),
        (lambda s: torch.cat([torch.ones(len(s)), torch.zeros(len(s))]), r"becomes \(8,\)"),
    ],
)
def test_rows_that_can_not_be_told(collate: Any, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every rank has all of them, and is told why."""
    parts = cuts(collate, [1, 2, 3])
    assert [str(part) for part in parts] == [str(collate([1, 2, 3]))] * 2
    assert re.search(message, capsys.readouterr().err)


def test_lengths_that_look_like_rows_at_first(capsys: pytest.CaptureFixture[str]) -> None:
    """The first batch has samples of length one: laid end to end it looks like rows, the next one shows that it isn't."""
    collate = WholeCollate(lambda s: torch.cat([torch.ones(n) for n in s]), 0, 2)
    collate([1, 1, 1])
    assert collate([1, 2, 3]).batch.shape == (6,)
    assert "two samples make" in capsys.readouterr().err


def test_one_process_cuts_nothing() -> None:
    whole = WholeCollate(lambda s: torch.cat([torch.ones(n) for n in s]), 0, 1)([2, 3])
    assert whole.batch.shape == (5,)
    assert whole.total == 2


def test_a_collate_that_changes_its_samples() -> None:
    def collate(samples: list[list[int]]) -> torch.Tensor:
        for s in samples:
            s.append(0)
        return torch.tensor([s[0] for s in samples])

    one, two = cuts(collate, [[4], [5]])
    assert one.tolist() + two.tolist() == [4, 5]


def test_numpy_is_cut_as_numpy() -> None:
    made = take((np.arange(5), np.float32(2.0)), by_size((np.arange(5), np.float32(2.0))), 1, 2)
    assert made.batch[0].tolist() == [3, 4]
    assert made.batch[1] == 2.0
