"""Sharded loaders: the original's batches, order and random numbers, sliced over ranks."""

from __future__ import annotations

import os
import pickle
import random
import threading
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    WeightedRandomSampler,
)

from distify import runtime
from distify.runtime.batches import BatchError
from distify.runtime.slicing import SliceError
from distify.runtime.state import state
from tests.pool import Pool, RankError


class Numbers(Dataset):
    def __init__(self, size=29):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return torch.tensor(index)


class Pairs(Numbers):
    def __getitem__(self, index):
        return torch.full((3,), float(index)), index


class Noisy(Numbers):
    """Augments with all three streams."""

    def __getitem__(self, index):
        return torch.tensor([index, float(torch.rand(())), random.random(), np.random.rand()])


class Backwards(Sampler):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __iter__(self):
        return iter(range(self.size - 1, -1, -1))


class Stream(IterableDataset):
    def __init__(self, size=17):
        self.size = size

    def __iter__(self):
        for index in torch.randperm(self.size).tolist():
            yield torch.tensor(index)


class RaggedBatches(Sampler):
    """A batch sampler of its own, with batches of 1 to 5."""

    def __iter__(self):
        numbers = iter(torch.randperm(15).tolist())
        for size in (5, 1, 4, 2, 3):
            yield [next(numbers) for _ in range(size)]

    def __len__(self):
        return 5


LOADERS = {
    "sequential": lambda: DataLoader(Numbers(), 7),
    "shuffle": lambda: DataLoader(Numbers(), 7, shuffle=True),
    "own generator": lambda: DataLoader(Numbers(), 7, shuffle=True, generator=torch.Generator().manual_seed(9)),
    "two workers": lambda: DataLoader(Numbers(), 7, shuffle=True, num_workers=2),
    "persistent": lambda: DataLoader(
        Numbers(), 7, shuffle=True, num_workers=2, persistent_workers=True, prefetch_factor=3
    ),
    "four workers": lambda: DataLoader(Numbers(), 7, num_workers=4),
    "weighted": lambda: DataLoader(Numbers(), 7, sampler=WeightedRandomSampler([1.0] * 28 + [9.0], 29)),
    "replacement": lambda: DataLoader(Numbers(), 7, sampler=RandomSampler(Numbers(), True, 40)),
    "sampler": lambda: DataLoader(Numbers(), 4, sampler=Backwards(13)),
    "batch sampler": lambda: DataLoader(Numbers(), batch_sampler=BatchSampler(RandomSampler(Numbers()), 7, False)),
    "ragged batches": lambda: DataLoader(Numbers(), batch_sampler=RaggedBatches()),
    "drop last": lambda: DataLoader(Numbers(), 7, shuffle=True, drop_last=True),
    "ones": lambda: DataLoader(Numbers(5), 1),
    "iterable": lambda: DataLoader(Stream(), 5),
    "iterable, workers": lambda: DataLoader(Stream(), 5, num_workers=1),
    "iterable, drop last": lambda: DataLoader(Stream(), 5, drop_last=True),
    "custom collate": lambda: DataLoader(Numbers(), 7, shuffle=True, collate_fn=torch.stack),
    "index lists": lambda: DataLoader(torch.arange(29), None, sampler=BatchSampler(RandomSampler(Numbers()), 7, False)),
    "subclass": lambda: Doubling(Numbers(), 7, shuffle=True),
}


class Doubling(DataLoader):
    """A loader with an `__iter__` of its own, as prefetchers have."""

    def __iter__(self):
        yield from super().__iter__()


def consume(name: str, world: int, epochs: int = 3) -> dict[str, Any]:
    """Iterate a loader as a script would, drawing in between; on one process without the runtime."""
    if world > 1:
        runtime.init()
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    loader = LOADERS[name]()
    sampler, batch_sampler, size = loader.sampler, loader.batch_sampler, loader.batch_size
    if world > 1:
        assert runtime.shard(loader) is loader
    seen, lasts = [], []
    for _ in range(epochs):
        epoch = []
        for batch in loader:
            rows = batch.tolist()
            if world > 1:
                record = state.batches.current("test")
                assert record.local == len(rows)
                assert record.local == max(1, record.rows)
                rows = rows[: record.rows]
                lasts.append(record.last)
            epoch.append(rows)
        seen.append(epoch)
        torch.randn(3)
    assert (loader.sampler, loader.batch_sampler, loader.batch_size) == (sampler, batch_sampler, size)
    length = len(loader) if "iterable" not in name else None
    return {"seen": seen, "length": length, "next": torch.rand(1).item(), "lasts": lasts}


def joined(results: list[dict[str, Any]]) -> list[list[list[int]]]:
    """The batches of all ranks put together again."""
    epochs = [r["seen"] for r in results]
    return [[[row for part in parts for row in part] for parts in zip(*epoch)] for epoch in zip(*epochs)]


@pytest.mark.parametrize("name", list(LOADERS))
def test_order_and_streams_are_the_originals(name: str, pool2: Pool, pool3: Pool) -> None:
    expected = consume(name, 1)
    for pool in (pool2, pool3):
        results = pool.run(consume, name, pool.size)
        assert joined(results) == expected["seen"]
        assert {r["next"] for r in results} == {expected["next"]}
        assert {r["length"] for r in results} == {expected["length"]}
        for batches in zip(*(r["seen"][0] for r in results)):
            lengths = [len(rows) for rows in batches]
            assert max(lengths) - min(lengths) <= 1
            assert lengths == sorted(lengths, reverse=True)


def test_last_batch_is_known_ahead(pool2: Pool) -> None:
    result = pool2.run(consume, "shuffle", 2, 2)[0]
    assert result["lasts"] == [False, False, False, False, True] * 2


def augment(workers: int, rank_seeds: bool = False) -> Any:
    runtime.init()
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    loader = runtime.shard(DataLoader(Noisy(), 7, num_workers=workers))
    rows = [batch.tolist() for _ in range(2) for batch in loader]
    return rows, (torch.rand(1).item(), random.random(), np.random.rand())


@pytest.mark.parametrize("workers", [0, 2])
def test_augmentation_differs_by_rank_and_streams_stay_together(workers: int, pool2: Pool) -> None:
    (rows0, after0), (rows1, after1) = pool2.run(augment, workers)
    assert after0 == after1
    for column in (1, 2, 3):
        drawn = [row[column] for batch in rows0 + rows1 for row in batch]
        assert len(set(drawn)) > 0.95 * len(drawn)  # filler rows are copies with draws of their own


def order_after_augmentation() -> list[int]:
    runtime.init()
    torch.manual_seed(3)
    loader = runtime.shard(DataLoader(Noisy(), 7, shuffle=True))
    return [int(row[0]) for _ in range(2) for batch in loader for row in batch.tolist()]


def test_augmentation_in_process_does_not_move_the_shuffle(pool2: Pool) -> None:
    one, two = pool2.run(order_after_augmentation)
    assert sorted(set(one) | set(two)) == list(range(29))
    assert len(one) + len(two) == 60  # one filler row in each pass


def pad(samples):
    lengths = torch.tensor([len(s) for s in samples])
    return pad_sequence([torch.ones(int(n)) * n for n in lengths]), lengths, len(samples), [f"s{n}" for n in lengths]


Named = namedtuple("Named", "x names more")


def nested(samples):
    x = torch.stack(samples).float()
    return {"a": Named(x, [str(int(v)) for v in x], {"b": [x + 1, None], "n": x.numpy() * 2}), "scale": 3.0}


class Words(Numbers):
    def __getitem__(self, index):
        return list(range(1 + index % 5))


def collated(kind: str) -> list[Any]:
    runtime.init()
    dataset, collate = (Words(), pad) if kind == "pad" else (Numbers(), nested)
    loader = runtime.shard(DataLoader(dataset, 4, collate_fn=collate))
    assert loader.collate_fn is collate
    return list(loader)


def test_padding_is_that_of_the_whole_batch(pool3: Pool) -> None:
    whole = list(DataLoader(Words(), 4, collate_fn=pad))
    parts = pool3.run(collated, "pad")
    for k, (padded, lengths, count, names) in enumerate(whole):
        cuts = [part[k] for part in parts]
        rows = [2, 1, 1] if count == 4 else [1, 0, 0]
        low = 0
        for (x, n, size, labels), held in zip(cuts, rows):
            real = slice(low, low + held) if held else slice(0, 1)
            assert torch.equal(x, padded[:, real])
            assert x.is_contiguous()
            assert torch.equal(n, lengths[real])
            assert size == max(held, 1)
            assert labels == names[real]
            low += held


def test_nested_structures_keep_their_kind(pool2: Pool) -> None:
    whole = list(DataLoader(Numbers(), 4, collate_fn=nested))
    one, two = pool2.run(collated, "nested")
    for batch, first, second in zip(whole[:-1], one, two):
        assert type(first["a"]) is Named
        assert torch.equal(torch.cat([first["a"].x, second["a"].x]), batch["a"].x)
        assert first["a"].names + second["a"].names == batch["a"].names
        assert torch.equal(torch.cat([p["a"].more["b"][0] for p in (first, second)]), batch["a"].more["b"][0])
        assert np.array_equal(np.concatenate([p["a"].more["n"] for p in (first, second)]), batch["a"].more["n"])
        assert first["scale"] == 3.0
        assert first["a"].more["b"][1] is None


def square(samples):
    """A padded length equal to the batch size, and a mask without batch dimension, must not be mistaken for rows."""
    size = 4
    return torch.arange(size * len(samples)).view(size, len(samples)), torch.ones(size, size), [torch.stack(samples)]


def squares() -> Any:
    runtime.init()
    return list(runtime.shard(DataLoader(Numbers(8), 4, collate_fn=square)))


def test_the_batch_dimension_is_learned_not_guessed(pool2: Pool) -> None:
    for part in pool2.run(squares):
        for x, mask, (values,) in part:
            assert x.shape == (4, 2)
            assert mask.shape == (4, 4)
            assert values.shape == (2,)


def dropping(samples):
    kept = [s for s in samples if int(s) % 4]
    return torch.stack(kept)


def dropped() -> Any:
    runtime.init()
    loader = runtime.shard(DataLoader(Numbers(12), 4, collate_fn=dropping))
    return [(b.tolist(), state.batches.current("test").total) for b in loader]


def test_a_collate_that_drops_samples(pool2: Pool) -> None:
    one, two = pool2.run(dropped)
    assert [a + b for (a, _), (b, _) in zip(one, two)] == [[1, 2, 3], [5, 6, 7], [9, 10, 11]]
    assert {total for _, total in one + two} == {3}


def noisy_collate(samples):
    return torch.stack(samples) + torch.rand(1) + random.random() + np.random.rand()


def random_collate(world: int) -> Any:
    if world > 1:
        runtime.init()
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    loader = DataLoader(Numbers(8), 4, shuffle=True, collate_fn=noisy_collate)
    if world > 1:
        runtime.shard(loader)
    return [row for batch in loader for row in batch.tolist()]


def test_a_random_collate_draws_what_the_original_draws(pool2: Pool) -> None:
    expected = random_collate(1)
    one, two = pool2.run(random_collate, 2)
    assert one[:2] + two[:2] + one[2:] + two[2:] == expected


def flat(samples):
    return torch.cat([torch.ones(len(s)) for s in samples])


def uncuttable(workers: int) -> Any:
    runtime.init()
    made = []
    for batch in runtime.shard(DataLoader(Words(), 3, collate_fn=flat, num_workers=workers)):
        made.append((len(batch), state.batches.current("test").counts, runtime.sum(len(batch))))
    return made


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_without_rows_is_whole_and_counts_once(pool2: Pool, workers: int) -> None:
    lengths = [len(Words()[k]) for k in range(len(Words()))]
    expected = [(n := sum(lengths[k : k + 3]), (min(3, len(lengths) - k), 0), n) for k in range(0, len(lengths), 3)]
    for made in pool2.run(uncuttable, workers):
        assert made == expected


def counted(samples):
    return {"x": torch.stack(samples), "n": len(samples), "more": sum(int(s) for s in samples)}


def counts_of() -> Any:
    runtime.init()
    return [(b["n"], b["more"]) for b in runtime.shard(DataLoader(Numbers(6), 4, collate_fn=counted))]


def test_a_number_that_grows_by_one_is_a_count_only_if_it_is_the_rows(pool2: Pool) -> None:
    assert pool2.run(counts_of) == [[(2, 6), (1, 9)], [(2, 6), (1, 9)]]


def items() -> Any:
    runtime.init()
    loader = runtime.shard(DataLoader(Pairs(3), None))
    made = []
    for x, _ in loader:
        record = state.batches.current("test")
        made.append((x.tolist(), record.counts, record.local))
    return made


def test_without_batch_size_items_are_whole_and_count_once(pool2: Pool) -> None:
    for made in pool2.run(items):
        assert made == [([float(k)] * 3, (3, 0), 3) for k in range(3)]


def per_device(name: str) -> Any:
    runtime.init(batch="per-device")
    torch.manual_seed(3)
    loader = runtime.shard(LOADERS[name]())
    made = []
    for batch in loader:
        record = state.batches.current("test")
        made.append((batch.tolist(), record.counts, record.start))
    return made, len(loader) if "iterable" not in name else None


@pytest.mark.parametrize("name", ["shuffle", "iterable", "subclass", "custom collate", "two workers"])
def test_per_device_deals_whole_batches(name: str, pool2: Pool, pool3: Pool) -> None:
    torch.manual_seed(3)
    batches = [b.tolist() for b in LOADERS[name]()]
    for pool in (pool2, pool3):
        results = pool.run(per_device, name)
        steps = -(-len(batches) // pool.size)
        for rank, (made, length) in enumerate(results):
            assert length in (steps, None)
            assert len(made) == steps
            for step, (rows, counts, start) in enumerate(made):
                group = batches[step * pool.size : (step + 1) * pool.size]
                assert counts == tuple(len(b) for b in group) + (0,) * (pool.size - len(group))
                if rank < len(group):
                    assert rows == group[rank]
                    assert start == sum(counts[:rank])
                else:
                    assert rows[0] == group[0][0]


def flow() -> None:
    runtime.init()
    loader = runtime.shard(DataLoader(Numbers(8), 4))
    other = runtime.shard(DataLoader(Numbers(6), 3))
    assert runtime.shard(loader) is loader
    assert [len(list(loader)) for _ in range(2)] == [2, 2]
    assert type(loader).__mro__.count(DataLoader) == 1
    first = iter(loader)
    next(first)
    outer = state.batches.current("test")
    assert [state.batches.current("test").total for _ in other] == [3, 3]
    assert state.batches.current("test") is outer  # the inner loop is over
    for _ in loader:
        break
    record = state.batches.current("test")
    assert record.total == 4
    for a, b in zip(loader, other):
        with pytest.raises(BatchError, match="of=tensor"):
            state.batches.current("test")
        assert state.batches.current("test", of=a).total == 4
        assert state.batches.current("test", of=b).total == 3


def test_nested_zipped_and_broken_loops(pool2: Pool) -> None:
    pool2.run(flow)


class Broken(Numbers):
    def __getitem__(self, index):
        if index == 4:
            raise ValueError("broken picture")
        return super().__getitem__(index)


def failing(workers: int) -> Any:
    runtime.init()
    loader = runtime.shard(DataLoader(Broken(12), 4, num_workers=workers))
    iterator = iter(loader)
    made = [next(iterator).tolist()]
    try:
        next(iterator)
        made.append("no error")
    except ValueError:
        made.append("error")
    made.append(next(iterator).tolist())
    return made, state.batches.current("test").counts


@pytest.mark.parametrize("workers", [0, 1])
def test_a_failing_data_set_keeps_records_in_step(workers: int, pool2: Pool) -> None:
    (one, counts), (two, _) = pool2.run(failing, workers)
    assert one == [[0, 1], "error", [8, 9]]
    assert two == [[2, 3], "no error", [10, 11]]
    assert counts == (2, 2)


def test_one_process_leaves_the_loader_alone() -> None:
    try:
        runtime.init()
        loader = DataLoader(Numbers(), 7)
        assert runtime.shard(loader) is loader
        assert isinstance(loader, DataLoader)
        assert type(pickle.loads(pickle.dumps(loader))) is DataLoader
    finally:
        runtime.shutdown()


def test_one_process_with_accumulation_records() -> None:
    try:
        runtime.init(accumulate=2)
        loader = runtime.shard(DataLoader(Numbers(10), 4))
        made = []
        for batch in loader:
            record = state.batches.current("test")
            made.append((len(batch), record.total, record.last, record.ahead(2)))
        assert made == [(4, 4, False, [4, 4]), (4, 4, False, [4, 2]), (2, 2, True, [2])]
        loader = runtime.shard(DataLoader(Stream(5), 2))
        made = [(len(b), state.batches.current("test").last) for b in loader]
        assert made == [(2, False), (2, False), (1, True)]
        loader = runtime.shard(DataLoader(Numbers(), batch_sampler=RaggedBatches()))
        made = [(len(b), state.batches.current("test").last) for b in loader]
        assert made == [(5, False), (1, False), (4, False), (2, False), (3, True)]
    finally:
        runtime.shutdown()


def test_not_a_loader() -> None:
    try:
        runtime.init()
        with pytest.raises(TypeError, match=r"runtime\.split"):
            runtime.shard([1, 2])  # type: ignore[type-var]
    finally:
        runtime.shutdown()


def drift() -> None:
    runtime.init()
    loader = runtime.shard(DataLoader(Numbers(4), 2))
    list(loader)
    torch.randn(runtime.rank() + 1)
    list(loader)


def test_diverged_streams_are_found_at_the_next_pass(pool2: Pool) -> None:
    with pytest.raises(RankError, match=r"runtime\.draw") as error:
        pool2.run(drift)
    assert error.value.types == ["StreamsDiverged", "StreamsDiverged"]


def test_slice_error_is_a_runtime_error() -> None:
    assert issubclass(SliceError, RuntimeError)


def threaded() -> Any:
    runtime.init()
    loader = runtime.shard(DataLoader(Numbers(8), 4))
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(loader))
    thread.start()
    thread.join()
    with pytest.raises(BatchError, match=r"outside|thread"):
        state.batches.current("test")
    return [state.batches.current("test", of=b).rows for b in found], [b.tolist() for b in found]


def test_a_prefetching_thread(pool2: Pool) -> None:
    assert pool2.run(threaded) == [([2, 2], [[0, 1], [4, 5]]), ([2, 2], [[2, 3], [6, 7]])]


def debugging() -> None:
    runtime.init()
    loader = runtime.shard(DataLoader(Numbers(8), 2))
    for step, _ in enumerate(loader):
        if step == 1:
            torch.randn(runtime.rank() + 1)
        assert step < 2


def test_debugging_compares_streams_at_every_batch(pool2: Pool) -> None:
    with pytest.raises(RankError) as error:
        pool2.run(with_debug)
    assert error.value.types == ["StreamsDiverged", "StreamsDiverged"]


def with_debug() -> None:
    os.environ["DISTIFY_DEBUG"] = "1"
    try:
        debugging()
    finally:
        del os.environ["DISTIFY_DEBUG"]
