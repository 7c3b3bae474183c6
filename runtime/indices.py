"""The index lists of a sharded loader: the original's, each cut to this rank's rows or dealt out whole."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler

from .batches import counts
from .same_data import mark

if TYPE_CHECKING:
    from .positions import Progress

SIZED = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler)  # `len` tells what they yield


@dataclass(frozen=True)
class Share:
    """How one batch is shared out.

    Attributes:
        counts: rows of every rank; `None` if the batch is passed on whole.
        last: whether it ends the pass; `None` if that isn't known.
        mark: tells which samples it holds; 0 where ranks can't differ, or that isn't known.
        digest: of all index lists up to this batch, as the original has them.
    """

    counts: tuple[int, ...] | None
    last: bool | None
    mark: int = 0
    digest: int = 0


@dataclass(frozen=True)
class Sizes(Sequence[int]):
    """Rows of each batch of a pass; no list, since a pass may be as good as endless (`num_samples=10**10`).

    Attributes:
        samples: how many the pass has.
        rows: of each batch but the last.
    """

    samples: int
    rows: int

    def __len__(self) -> int:
        return -(-self.samples // self.rows)

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        k = range(len(self))[index]
        return min(self.rows, self.samples - k * self.rows)


class Slices:
    """Stands in for the loader's batch sampler: passes its index lists on, cut to this rank's rows.

    The sampler inside is iterated as in the original, so its generators are consumed as in the original.

    Args:
        inner: the loader's own batch sampler (or sampler, if it has no batches).
        rank, world_size: this process among all.
        whole: pass the index lists on uncut: the batch is cut after `collate_fn`.
        per_device: each rank gets whole batches, batch k·N + rank.
        ahead: read one index list ahead where the end of the pass isn't known otherwise.
    """

    def __init__(
        self, inner: Iterable[Any], rank: int, world_size: int, whole: bool, per_device: bool, ahead: bool
    ) -> None:
        self.inner = inner
        self.rank = rank
        self.world_size = world_size
        self.whole = whole
        self.per_device = per_device
        self.ahead = ahead
        self.passes: list[Pass] = []
        self.progress: Progress | None = None  # of the next pass

    def __len__(self) -> int:
        batches = len(self.inner)  # type: ignore[arg-type]
        return -(-batches // self.world_size) if self.per_device else batches

    def watch(self, start: Callable[[], Iterator[Any]], progress: Progress) -> tuple[Iterator[Any], Pass | None]:
        """A loader's iterator, and its pass over the index lists, if it has any.

        Args:
            start: makes the iterator.
            progress: how many batches it passes over, and what is done before the first is drawn.
        """
        self.passes.clear()
        self.progress = progress
        try:
            inner = start()
            # The loader makes an iterator over its index lists once or twice at this moment, and uses the latest one.
            return inner, self.passes[-1] if self.passes else None
        finally:
            self.passes.clear()
            self.progress = None

    def __iter__(self) -> Pass:
        made = Pass(self)
        self.passes.append(made)
        return made

    def totals(self) -> Sizes | None:
        """Rows of each global batch, where they are known ahead."""
        sampler = self.inner
        if type(sampler) is not BatchSampler or type(sampler.sampler) not in SIZED:
            return None
        samples, rows = len(sampler.sampler), sampler.batch_size  # type: ignore[arg-type]
        samples -= samples % rows if sampler.drop_last else 0
        return Sizes(samples, rows * (self.world_size if self.per_device else 1))


class Pass(Iterator[Any]):
    """One pass over the index lists; it notes how each batch is shared out, first in, first out."""

    def __init__(self, slices: Slices) -> None:
        self.slices = slices
        self.indices = iter(slices.inner)
        self.shares: deque[Share] = deque()
        self.totals = slices.totals()
        self.made = 0
        self.waiting: list[Any] = []
        self.digest = 0
        self.progress = slices.progress
        self.behind = 0 if self.progress is None else self.progress.batches
        self.caught: int | None = None  # the digest when it had caught up

    def catch_up(self) -> None:
        """Pass over the batches that an earlier run had drawn, reading no sample.

        Raises:
            StopIteration: there are not as many.
        """
        behind, self.behind = self.behind, 0
        for _ in range(behind):
            self._group()
            self.made += 1
        self.caught = self.digest

    def __next__(self) -> Any:
        slices = self.slices
        if self.behind:
            self.catch_up()
        group = self._group()
        digest = self.digest
        last = None if self.totals is None else self.made + 1 == len(self.totals)
        if last is None and slices.ahead:
            self.waiting = self._read()
            last = not self.waiting
        self.made += 1
        index, rows = group[0], None
        found = mark(group) if self.totals is None and slices.world_size > 1 else 0
        if slices.per_device and _is_list(index):
            index, rows = deal(group, slices.rank, slices.world_size)
        elif not slices.whole and _is_list(index):
            index, rows = own(index, slices.rank, slices.world_size)
        self.shares.append(Share(rows, last, found, digest))
        return index

    def _group(self) -> list[Any]:
        group = self.waiting or self._read()
        self.waiting = []
        if not group:
            raise StopIteration
        return group

    def _read(self) -> list[Any]:
        """The index lists of the next global batch: one, or one per rank; empty at the end."""
        group: list[Any] = []
        wanted = self.slices.world_size if self.slices.per_device else 1
        if self.progress is not None:
            self.progress.draw()
        for index in self.indices:
            group.append(index)
            self.digest = zlib.crc32(repr(index).encode(), self.digest)
            if len(group) == wanted:
                break
        return group


def _is_list(index: Any) -> bool:
    """Whether this index stands for several samples; a loader without batches yields one sample's index at a time."""
    return not isinstance(index, (str, bytes, tuple)) and hasattr(index, "__len__") and hasattr(index, "__getitem__")


def own(index: Any, rank: int, world_size: int) -> tuple[Any, tuple[int, ...]]:
    """This rank's contiguous part of an index list (its first entry if there are too few), and rows of all ranks."""
    rows = counts(len(index), world_size)
    low = sum(rows[:rank])
    return (index[low : low + rows[rank]] if rows[rank] else index[:1]), rows


def deal(group: list[Any], rank: int, world_size: int) -> tuple[Any, tuple[int, ...]]:
    """One whole index list per rank; the first entry of the first where the pass ends before this rank's turn."""
    rows = tuple(len(index) for index in group) + (0,) * (world_size - len(group))
    return (group[rank] if rank < len(group) else group[0][:1]), rows
