"""What is known of a batch: the rows of every rank, and the loader pass or place in the code that it came from."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

AHEAD = 4  # batches before the latest that a script which fetches ahead may still use


def counts(total: int, world_size: int) -> tuple[int, ...]:
    """Rows of each rank when `total` rows are cut into contiguous slices: `divmod`, the first ranks get one more."""
    rows, extra = divmod(total, world_size)
    return tuple(rows + (rank < extra) for rank in range(world_size))


@dataclass(eq=False)
class Source:
    """What makes batches: one pass over a loader, or one place in the code that calls `split`.

    Attributes:
        name: for messages.
        serial: value of the registry's clock when it was made.
        totals: rows of each batch of the pass where they are known ahead, else `None`.
        kind: "loader" or "split".
        live: false once the pass is exhausted or its iterator was dropped.
        loose: its iterator was dropped before anything used its last record, as `next(iter(loader))` does; the record
            stays usable until another one is made.
        apart: it was read in another thread (a prefetcher), which runs ahead of what uses its batches.
        latest: its last record.
        earlier: those before it, the latest first, at most `AHEAD`.
        previous: serial of the record before that, or its own serial.
        made: number of records.
    """

    name: str
    serial: int
    totals: Sequence[int] | None = None
    kind: str = "loader"
    live: bool = True
    loose: bool = False
    apart: bool = False
    latest: Batch | None = None
    earlier: list[Batch] = field(default_factory=list)
    previous: int = -1
    made: int = 0

    def finish(self) -> None:
        """The pass is exhausted: its record no longer counts as the current batch."""
        self.live = self.loose = False

    def drop(self) -> None:
        """The iterator of the pass is gone, perhaps before its end."""
        self.loose = self.live and self.latest is not None and not self.latest.used
        self.live = False


@dataclass(eq=False)
class Batch:
    """One global batch, as this rank sees it.

    Attributes:
        counts: rows of every rank; their sum is the batch. Slices are contiguous, in rank order.
        rank: this rank.
        local: rows that this rank's tensors hold: `rows`, or those of the copy that stands in when it has none.
        source: what it came from.
        serial: position among all records.
        index: position in its source, from 0.
        last: whether it ends its pass; `None` where that isn't known (`split`).
        used: whether a reduction has asked for it.
        shapes: of this rank's floating-point tensors.
    """

    counts: tuple[int, ...]
    rank: int
    local: int
    source: Source
    serial: int = 0
    index: int = 0
    last: bool | None = None
    used: bool = False
    shapes: frozenset[tuple[int, ...]] = frozenset()

    @property
    def rows(self) -> int:
        """This rank's real rows; 0 where it holds a filler."""
        return self.counts[self.rank]

    @property
    def total(self) -> int:
        """Rows of the global batch."""
        return sum(self.counts)

    @property
    def start(self) -> int:
        """Position of this rank's first row in the global batch."""
        return sum(self.counts[: self.rank])

    @property
    def filler(self) -> bool:
        """Whether what this rank holds is a copy that must not count."""
        return self.rows == 0

    @property
    def share(self) -> float:
        """This rank's part of the batch, 0 to 1."""
        return self.rows / self.total

    def ahead(self, batches: int) -> list[int] | None:
        """Global rows of this batch and of those that follow it in its pass, at most `batches`; `None` if unknown."""
        totals = self.source.totals
        return None if totals is None else list(totals[self.index : self.index + batches])


def leaves(batch: Any) -> Iterator[Tensor]:
    """All tensors of a nested structure of tuples, lists, dicts and objects with attributes."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, dict) or hasattr(batch, "items"):
        for value in batch.values():
            yield from leaves(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from leaves(value)
    elif hasattr(batch, "__dict__") and not isinstance(batch, type):
        for value in vars(batch).values():
            if isinstance(value, Tensor):
                yield value


def follow(owner: object, source: Source) -> None:
    """End the source when `owner`, the iterator of its pass, is dropped."""
    weakref.finalize(owner, source.drop).atexit = False
