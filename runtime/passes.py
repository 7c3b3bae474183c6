"""One pass over a sharded loader: what it yields, and the record of each batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import digest, guard, meeting
from .batches import Batches, counts, follow, leaves
from .collate import Cut, take
from .indices import Pass
from .same_data import check_batch, check_pass
from .same_streams import check_streams
from .slicing import SliceError, by_size
from .state import state
from .wrapped import Wrapped

if TYPE_CHECKING:
    from .positions import Progress
    from .shard import ShardedLoader


class BatchIterator(Wrapped):
    """Iterates over a sharded loader and records every batch.

    Args:
        loader: the sharded loader.
        inner: its own iterator.
        indices: notes how each batch is shared out; `None` where batches aren't cut by index.
        progress: how far the pass has come, for checkpoints.
    """

    def __init__(self, loader: ShardedLoader, inner: Iterator[Any], indices: Pass | None, progress: Progress) -> None:
        self.sharding = loader._sharding
        super().__init__(inner)
        self.indices = indices
        self.progress = progress
        self.waiting: list[tuple[Any, tuple[int, ...], int]] = []
        name = f"the loader over {type(loader.dataset).__name__}"
        sizes = None if indices is None else indices.totals
        check_pass(name, sizes, [loader.generator, getattr(loader.sampler, "generator", None)])
        check_streams(f"a pass over {name} begins")
        self.told = sizes is not None  # what ranks read is known ahead
        self.mark = 0
        self.batches = state.batches or Batches()
        self.source = self.batches.source(name, indices.totals if indices is not None else None)
        self.source.made = progress.batches
        follow(self, self.source)

    def skip(self, batches: int) -> None:
        """Read and drop."""
        for _ in range(batches):
            self._read()

    def __next__(self) -> Any:
        if meeting.on():
            check_streams(f"{self.source.name} is asked for a batch")
        self.source.apart |= not guard.in_own_thread()
        self.progress.apart = self.source.apart
        found: tuple[Any, tuple[int, ...], int, bool | None] | None = None
        with suppress(StopIteration):
            found = self._known_end() if self.indices is not None else self._unknown_end()
        if not self.told:
            check_batch(self.source, None if found is None else found[1], 0 if found is None else self.mark)
        if found is None:
            self.source.finish()
            self.progress.over = True
            if not self.source.apart:
                digest.after_pass(self.source.name, self.progress.batches)
            raise StopIteration
        batch, rows, local, last = found
        self.progress.batches += 1
        self.batches.record(self.source, rows, batch, local=local, last=last)
        return batch

    def _known_end(self) -> tuple[Any, tuple[int, ...], int, bool | None]:
        """The next batch of a loader whose index lists are noted."""
        assert self.indices is not None
        shares = self.indices.shares
        try:
            item = next(self.inner)
        except StopIteration:
            raise
        except Exception:
            if shares:
                shares.popleft()  # the batch that failed
            raise
        share = shares.popleft()
        self.mark = share.mark
        self.progress.digest = share.digest
        if share.counts is not None:
            return item, share.counts, max(share.counts[self.sharding.rank], 1), share.last
        batch, rows, local = self._arrived(item)
        totals = self.source.totals
        if self.sharding.ahead and totals is not None and totals[self.source.made] != sum(rows):
            raise SliceError(
                f"collate_fn made a batch of {sum(rows)} rows from {totals[self.source.made]} samples. With accumulate "
                "the rows of a window must be known ahead: drop samples in the data set, not in collate_fn."
            )
        return batch, rows, local, share.last

    def _unknown_end(self) -> tuple[Any, tuple[int, ...], int, bool | None]:
        """The next batch of a source that says its end only when it is reached."""
        now = self.waiting.pop() if self.waiting else self._read()
        if not self.sharding.ahead:
            return (*now, None)
        try:
            self.waiting.append(self._read())
        except StopIteration:
            return (*now, True)
        return (*now, False)

    def _read(self) -> tuple[Any, tuple[int, ...], int]:
        self.progress.draw()
        if not self.sharding.per_device or self.sharding.kind == "item":
            return self._arrived(next(self.inner))
        group = [self._whole(next(self.inner))]
        for item in self.inner:
            group.append(self._whole(item))
            if len(group) == self.sharding.world_size:
                break
        mine = group[self.sharding.rank] if self.sharding.rank < len(group) else group[0]
        rows = tuple(cut.total for cut in group) + (0,) * (self.sharding.world_size - len(group))
        return mine.batch, rows, mine.local

    def _whole(self, item: Any) -> Cut:
        return item if self.sharding.kind == "whole" else self._cut(item, 0, 1)

    def _arrived(self, item: Any) -> tuple[Any, tuple[int, ...], int]:
        """A whole batch, cut to this rank's rows; what has no rows is the same everywhere and counts on rank 0."""
        sharding = self.sharding
        if sharding.kind == "item" or sharding.kind == "index":
            found = Cut(item, 0, 0)
        else:
            found = item if sharding.kind == "whole" else self._cut(item, sharding.rank, sharding.world_size)
        if found.total:
            return found.batch, counts(found.total, sharding.world_size), found.local
        held = found.local or _held(found.batch)
        return found.batch, (held,) + (0,) * (sharding.world_size - 1), held

    def _cut(self, item: Any, rank: int, world_size: int) -> Cut:
        try:
            return take(item, by_size(item), rank, world_size)
        except SliceError as error:
            if world_size == 1:
                held = _held(item)
                return Cut(item, held, held)  # nothing to cut
            raise SliceError(
                f"{self.source.name} yields a batch that can't be cut: {error}. The loader's class has an __iter__ of "
                "its own; let it yield tensors whose first dimension runs over the samples."
            ) from None


def _held(item: Any) -> int:
    """Rows of the first tensor in an item, 1 if there is none."""
    return next((int(tensor.shape[0]) for tensor in leaves(item) if tensor.dim() > 0), 1)
