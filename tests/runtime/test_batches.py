"""Which batch a value belongs to."""

from __future__ import annotations

import gc

import pytest
import torch

from distify.runtime.batches import BatchError, Batches, counts, follow


class Owner:
    """Stands for the iterator of a pass."""


def test_counts_are_divmod_with_larger_slices_first() -> None:
    assert counts(7, 3) == (3, 2, 2)
    assert counts(1, 3) == (1, 0, 0)
    assert counts(4, 2) == (2, 2)


def test_a_record_knows_its_rows() -> None:
    batches = Batches(1, 3)
    batch = batches.record(batches.source("a", [7, 2]), counts(7, 3), last=False)
    assert (batch.rows, batch.total, batch.start, batch.local, batch.filler) == (2, 7, 3, 2, False)
    assert batch.share == pytest.approx(2 / 7)
    assert batch.ahead(1) == [7]
    assert batch.ahead(4) == [7, 2]
    short = batches.record(batches.source("b"), counts(1, 3))
    assert (short.rows, short.total, short.start, short.local, short.filler) == (0, 1, 1, 1, True)
    assert short.ahead(2) is None


def test_no_batch_is_an_error_that_says_what_to_do() -> None:
    batches = Batches(0, 2)
    with pytest.raises(BatchError, match=r"runtime\.mean\(\) stands outside any batch.*of=tensor"):
        batches.current("mean")
    source = batches.source("a")
    batches.record(source, (2, 2))
    source.finish()
    with pytest.raises(BatchError, match="outside any batch"):
        batches.current("mean")


def test_a_finished_batch_is_found_by_its_tensor_only() -> None:
    batches = Batches(0, 2)
    source = batches.source("a")
    x = torch.zeros(2, 3)
    record = batches.record(source, (2, 2), {"x": [x, "name"]})
    source.finish()
    assert batches.current("mean", of=x) is record
    assert batches.current("mean", of=x + 1) is record
    with pytest.raises(BatchError, match="no batch in use has 3 rows"):
        batches.current("mean", of=torch.zeros(3))


def test_named_by_rows() -> None:
    batches = Batches(0, 2)
    a = batches.record(batches.source("a"), (2, 2))
    b = batches.record(batches.source("b"), (3, 2))
    assert batches.current("mean", of=torch.zeros(3, 1)) is b
    assert batches.current("mean", of=[torch.zeros(2)]) is a
    batches.record(batches.source("c"), (3, 3))
    with pytest.raises(BatchError, match="same number of rows"):
        batches.current("mean", of=torch.zeros(3, 1))
    with pytest.raises(BatchError, match="no batch in use has 5 rows"):
        batches.current("mean", of=torch.zeros(5))


def test_inner_loop_then_outer() -> None:
    batches = Batches(0, 2)
    train = batches.source("train")
    outer = [batches.record(train, (4, 4)) for _ in range(3)][-1]
    for _ in range(2):
        inner = batches.source("test")
        for rows in ((3, 3), (3, 2)):
            assert batches.current("mean") is not None
            record = batches.record(inner, rows)
            assert batches.current("mean") is record
        inner.finish()
        assert batches.current("mean") is outer


def test_two_loaders_that_take_turns_are_ambiguous_unless_alike() -> None:
    batches = Batches(0, 2)
    one, two = batches.source("one"), batches.source("two")
    batches.record(one, (4, 4))
    batches.record(two, (3, 3))
    with pytest.raises(BatchError, match=r"two batches are in use, 3 of 6 rows from two and 4 of 8 rows from one"):
        batches.current("mean")
    batches.record(one, (4, 4))
    with pytest.raises(BatchError, match="of=tensor"):
        batches.current("mean")
    alike = Batches(0, 2)
    one, two = alike.source("one"), alike.source("two")
    alike.record(one, (4, 4))
    record = alike.record(two, (4, 4))
    assert alike.current("mean") is record


def test_a_dropped_iterator_ends_its_pass() -> None:
    batches = Batches(0, 2)
    outer = batches.record(batches.source("outer"), (4, 4))
    owner = Owner()
    source = batches.source("inner")
    follow(owner, source)
    batches.record(source, (3, 3))
    batches.current("mean")
    del owner
    gc.collect()
    assert batches.current("mean") is outer


def test_one_batch_taken_from_a_loader_stays_usable() -> None:
    """`batch = next(iter(loader))`: the iterator is gone before the batch is used."""
    batches = Batches(0, 2)
    owner = Owner()
    source = batches.source("a")
    follow(owner, source)
    record = batches.record(source, (3, 3))
    del owner
    gc.collect()
    assert batches.current("mean") is record
    other = batches.source("b")
    newer = batches.record(other, (4, 4))
    assert batches.current("mean") is newer
    other.finish()
    with pytest.raises(BatchError, match="outside"):
        batches.current("mean")


def test_a_batch_fetched_early_is_found_by_its_rows() -> None:
    """A prefetcher holds the next batch already, and outlives the loader."""
    batches = Batches(0, 2)
    source = batches.source("a")
    first, second = batches.record(source, (3, 3)), batches.record(source, (2, 2))
    assert batches.current("mean", of=torch.zeros(3, 1)) is first
    assert batches.current("mean", of=torch.zeros(2, 1)) is second
    source.finish()
    assert batches.current("mean", of=torch.zeros(2, 1)) is second
    for _ in range(9):
        batches.source("b").finish()
    batches.source("c")
    with pytest.raises(BatchError, match="no batch in use has 2 rows"):
        batches.current("mean", of=torch.zeros(2, 1))


def test_a_loader_read_in_another_thread_needs_a_name() -> None:
    batches = Batches(0, 2)
    source = batches.source("a")
    source.apart = True
    x = torch.zeros(2)
    record = batches.record(source, (2, 2), x)
    with pytest.raises(BatchError, match=r"another thread.*of=tensor"):
        batches.current("mean")
    assert batches.current("mean", of=x) is record


def test_splits_are_told_apart_by_their_place() -> None:
    batches = Batches(0, 2)
    train, test = batches.site("train.py:1"), batches.site("train.py:9")
    assert batches.site("train.py:1") is train
    for _ in range(3):
        batches.record(train, (4, 4))
    for _ in range(2):
        record = batches.record(test, (5, 5))
        assert batches.current("mean") is record
    record = batches.record(train, (4, 4))
    assert batches.current("mean") is record


def test_a_hidden_state_split_once_per_pass_is_no_second_batch() -> None:
    batches = Batches(0, 2)
    for _ in range(3):
        batches.record(batches.site("hidden, train"), (4, 3))
        for _ in range(3):
            batches.record(batches.site("data, train"), (4, 3))
            assert batches.current("mean").total == 7
        batches.record(batches.site("hidden, test"), (3, 2))
        for _ in range(2):
            batches.record(batches.site("data, test"), (3, 2))
            assert batches.current("mean").total == 5


def test_an_evaluation_before_training_is_over() -> None:
    batches = Batches(0, 2)
    batches.record(batches.site("test"), (9, 9))
    assert batches.current("mean").total == 18
    for _ in range(3):
        batches.record(batches.site("train"), (4, 4))
        assert batches.current("mean").total == 8
        batches.record(batches.site("test"), (9, 9))
        assert batches.current("mean").total == 18


def test_two_data_sets_split_once_are_ambiguous() -> None:
    batches = Batches(0, 2)
    batches.record(batches.site("train.py:1"), (40, 40))
    batches.record(batches.site("train.py:2"), (9, 9))
    with pytest.raises(BatchError, match="of=tensor"):
        batches.current("mean")


def test_all_parts_of_a_batch_are_used_with_it() -> None:
    """Batches of two sizes by turns: what was cut with the one that a reduction names is over with it."""
    batches = Batches(0, 2)
    x, y, u = (batches.site(f"train.py:{line}") for line in (5, 6, 9))
    v = batches.site("train.py:9", 1)
    for _ in range(3):
        first = torch.zeros(2)
        batches.record(x, (2, 2), first)
        batches.record(y, (2, 2))
        assert batches.current("mean", of=first).total == 4
        batches.record(u, (3, 2))
        batches.record(v, (3, 2))
        assert batches.current("mean").total == 5  # one line cut both


def test_batches_of_two_sizes_are_ambiguous_unless_named() -> None:
    batches = Batches(0, 2)
    x, y, u = (batches.site(f"train.py:{line}") for line in (5, 6, 9))
    batches.record(x, (2, 2))
    batches.record(y, (2, 2))
    batches.current("mean")
    batches.record(u, (3, 2))
    with pytest.raises(BatchError, match="two batches are in use"):
        batches.current("mean")


@pytest.mark.parametrize(("found_there", "total"), [([False, True], 6), ([True, False], 5)])
def test_a_copy_that_fits_two_batches_here_is_settled_with_the_other_ranks(found_there: list[bool], total: int) -> None:
    """Of batches of 6 and of 5 rows the first of two ranks holds 3 rows each; the second one tells which it is."""
    batches = Batches(0, 2, lambda fits: [here and there for here, there in zip(fits, found_there)])
    source = batches.source("a")
    batches.record(source, (3, 3))
    batches.record(source, (3, 2))  # fetched ahead
    assert batches.current("mean", of=torch.zeros(3, 1)).total == total


def test_batches_that_every_rank_can_tell_apart_are_not_asked_about() -> None:
    def never(fits: list[bool]) -> list[bool]:
        raise AssertionError(f"asked about {fits}")

    batches = Batches(0, 2, never)
    source = batches.source("a")
    batches.record(source, (3, 3))
    batches.record(source, (2, 1))
    assert batches.current("mean", of=torch.zeros(3, 1)).total == 6
