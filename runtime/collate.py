"""A user's `collate_fn` sees the whole batch, as in the original; this rank's rows are cut out of what it returns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from .batches import counts
from .generators import keep
from .slicing import Layout, SliceError, cut, learn, sizes
from .streams import capture, restore


class Cut(NamedTuple):
    """What a rank gets of a batch; a named tuple, so that it passes through worker queues and memory pinning.

    Attributes:
        batch: this rank's rows, in the structure that `collate_fn` made.
        total: samples of the whole batch; 0 if nothing in it is made of rows, so that it was not cut.
        local: rows in `batch`.
    """

    batch: Any
    total: int
    local: int


def take(batch: Any, layout: Layout, rank: int, world_size: int) -> Cut:
    """This rank's contiguous rows of a whole batch; a copy of its first row if there are fewer rows than ranks.

    Raises:
        SliceError: the parts of the batch disagree on the number of rows.
    """
    found = set(sizes(batch, layout))
    if len(found) > 1:
        raise SliceError(f"its parts have {' and '.join(map(str, sorted(found)))} rows")
    total = found.pop() if found else 0
    if total == 0:
        return Cut(batch, 0, 0)
    rows = counts(total, world_size)
    low = sum(rows[:rank])
    low, high = (low, low + rows[rank]) if rows[rank] else (0, 1)
    return Cut(cut(batch, layout, low, high), total, high - low)


class WholeCollate:
    """Calls the user's `collate_fn` on all samples of a batch and keeps this rank's rows.

    The dimension that runs over the samples is learned once, by collating one sample twice; random streams are set
    back after that, so the user's function draws what it draws in the original.

    Args:
        collate: the user's function.
        rank, world_size: this process among all; with a world size of 1 nothing is cut off.
    """

    def __init__(self, collate: Callable[[Any], Any], rank: int, world_size: int) -> None:
        self.collate = collate
        self.rank = rank
        self.world_size = world_size
        self.layout: Layout | None = None

    def __call__(self, samples: Sequence[Any]) -> Cut:
        """Collate and cut.

        Raises:
            SliceError: it can't be told which part of the result belongs to which sample.
        """
        samples = list(samples)
        kept = copy.deepcopy(samples) if self.layout is None else samples  # `collate` may change its samples
        streams = capture() if self.layout is None else None
        batch = self.collate(samples)
        if self.layout is not None:
            with suppress(SliceError):  # a batch of another structure
                made = take(batch, self.layout, self.rank, self.world_size)
                if made.total == len(samples):
                    return made
        after, own = capture(), keep(self.collate)
        try:
            restore(streams or after)
            self.layout = learn(self.collate, kept, batch)
            return take(batch, self.layout, self.rank, self.world_size)
        except SliceError as error:
            if self.world_size == 1:
                return Cut(batch, len(samples), len(samples))  # nothing to cut
            name = getattr(self.collate, "__qualname__", type(self.collate).__name__)
            raise SliceError(
                f"runtime.shard(): the batch that {name} returns can't be cut into slices: {error}. Return tensors "
                "with one row per sample (any dimension), lists with one entry per sample, or structures of them."
            ) from None
        finally:
            restore(after)
            own()
