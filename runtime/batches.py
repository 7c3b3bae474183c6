"""Records of batches: how many rows each rank holds of the batch that a value came from."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from .state import DistifyError


class BatchError(DistifyError):
    """It can't be told which batch a value belongs to; the message says how to name it."""


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
        latest: its last record.
        previous: serial of the record before that, or its own serial.
        made: number of records.
    """

    name: str
    serial: int
    totals: Sequence[int] | None = None
    kind: str = "loader"
    live: bool = True
    loose: bool = False
    latest: Batch | None = None
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
    """

    counts: tuple[int, ...]
    rank: int
    local: int
    source: Source
    serial: int = 0
    index: int = 0
    last: bool | None = None
    used: bool = False

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


@dataclass
class Batches:
    """The records that are alive, and the rules by which a value finds its own.

    Args:
        rank, world_size: this process among all.
    """

    rank: int = 0
    world_size: int = 1
    clock: int = 0
    sources: list[Source] = field(default_factory=list)
    tensors: WeakTensorKeyDictionary = field(default_factory=WeakTensorKeyDictionary)
    _sites: dict[str, Source] = field(default_factory=dict)

    def source(self, name: str, totals: Sequence[int] | None = None) -> Source:
        """Begin a pass over a loader."""
        self.sources = [s for s in self.sources if s.live or s.loose]
        self.clock += 1
        made = Source(name, self.clock, totals, previous=self.clock)
        self.sources.append(made)
        return made

    def site(self, place: str) -> Source:
        """The source of a `split` call at this place in the code."""
        if place not in self._sites:
            self._sites[place] = self.source(f"split at {place}")
            self._sites[place].kind = "split"
        return self._sites[place]

    def record(
        self,
        source: Source,
        rows: Sequence[int],
        batch: Any = None,
        *,
        local: int | None = None,
        last: bool | None = None,
    ) -> Batch:
        """Enter a batch that `source` has just made; it becomes the current one.

        Args:
            source: the pass or place it comes from.
            rows: rows of every rank.
            batch: what the user gets; its tensors will name the batch in `of=`.
            local: rows that this rank's tensors hold, if not its own rows (at least one).
            last: whether it ends the pass.
        """
        self.clock += 1
        for other in self.sources:
            other.loose = False
        held = max(rows[self.rank], 1) if local is None else local
        made = Batch(tuple(rows), self.rank, held, source, self.clock, source.made, last)
        if source.latest is not None:
            source.previous = source.latest.serial
        source.latest = made
        source.made += 1
        for tensor in leaves(batch):
            self.tensors[tensor] = made
        return made

    def current(self, caller: str, of: Any = None) -> Batch:
        """The batch that a value belongs to.

        Args:
            caller: the runtime function that asks, for messages.
            of: a tensor of the batch (as it came, or with the same number of rows), or a structure that holds one.

        Raises:
            BatchError: there is no batch, or more than one that it could be.
        """
        live = [s.latest for s in self.sources if (s.live or s.loose) and s.latest is not None]
        found = self._latest(caller, live) if of is None else self._named(caller, of, live)
        found.used = True
        return found

    def _latest(self, caller: str, live: list[Batch]) -> Batch:
        if not live:
            raise BatchError(
                f"runtime.{caller}() stands outside any batch: no loop over a sharded loader is running and nothing "
                f"was split. Move it into the loop, or name a tensor of the batch: runtime.{caller}(…, of=tensor)."
            )
        latest = max(live, key=lambda b: b.serial)
        for other in live:
            if other.counts != latest.counts and (latest.source.loose or _interleaved(latest.source, other.source)):
                raise BatchError(
                    f"runtime.{caller}(): two batches are in use, {_describe(latest)} and {_describe(other)}. "
                    f"Name a tensor of the one that the value comes from: runtime.{caller}(…, of=tensor)."
                )
        return latest

    def _named(self, caller: str, of: Any, live: list[Batch]) -> Batch:
        if isinstance(of, Batch):
            return of
        tensors = list(leaves(of))
        for tensor in tensors:
            known = self.tensors.get(tensor)  # type: ignore[no-untyped-call]
            if isinstance(known, Batch):
                return known
        sizes = {t.shape[0] for t in tensors if t.dim() > 0}
        found = [b for b in live if b.local in sizes]
        if not found:
            described = ", ".join(map(_describe, live)) or "none"
            raise BatchError(
                f"runtime.{caller}(of=…): no batch in use has {' or '.join(map(str, sorted(sizes)) or 'these')} rows "
                f"on this rank (in use: {described}). Pass a tensor that the loader or split returned."
            )
        if any(b.counts != found[0].counts for b in found):
            raise BatchError(
                f"runtime.{caller}(of=…): {' and '.join(map(_describe, found))} have the same number of rows on this "
                "rank. Pass a tensor that the loader or split returned."
            )
        return max(found, key=lambda b: b.serial)


def _describe(batch: Batch) -> str:
    return f"{batch.rows} of {batch.total} rows from {batch.source.name}"


def _interleaved(now: Source, other: Source) -> bool:
    """Whether two sources take turns, as `zip(a, b)` makes them; one that runs inside a step of another does not."""
    if now.latest is None or other.latest is None:
        return False
    if now.kind == other.kind == "split" and now.made == other.made == 1:
        return True  # two data sets split once, before the loop: nothing says which one a value comes from
    return other.previous < now.previous < other.latest.serial < now.latest.serial


def follow(owner: object, source: Source) -> None:
    """End the source when `owner`, the iterator of its pass, is dropped."""
    weakref.finalize(owner, source.drop).atexit = False
