"""A user's `collate_fn` sees the whole batch, as in the original; this rank's rows are cut out of what it returns."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from torch.utils.data import get_worker_info

from .batches import counts
from .generators import keep
from .slicing import Layout, SliceError, cut, learn, sizes
from .streams import capture, restore


class Cut(NamedTuple):
    """What a rank gets of a batch; a named tuple, so that it passes through worker queues and memory pinning.

    Attributes:
        batch: this rank's rows, in the structure that `collate_fn` made.
        total: samples of the whole batch; 0 if nothing in it is made of rows, so that it was not cut.
        local: rows in `batch`; 0 if they are not known.
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
        self.uncut = False

    def __call__(self, samples: Sequence[Any]) -> Cut:
        """Collate and cut.

        Where it can't be told which part of the result belongs to which sample (texts laid end to end, with offsets),
        every rank gets the whole batch, and rank 0's counts.
        """
        samples = list(samples)
        if self.uncut:
            return Cut(self.collate(samples), 0, len(samples))
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
            self.uncut = True
            self._say(error)
            return Cut(batch, 0, len(samples))
        finally:
            restore(after)
            own()

    def _say(self, error: SliceError) -> None:
        worker = get_worker_info()
        if self.rank or (worker is not None and worker.id):
            return
        name = getattr(self.collate, "__qualname__", type(self.collate).__name__)
        sys.stderr.write(
            f"distify: the batch that {name} returns can't be cut into slices: {error}. Every rank computes all of it: "
            "exact, but no faster. To have it shared out, return tensors with one row per sample (any dimension), "
            "lists with one entry per sample, or structures of them.\n"
        )
