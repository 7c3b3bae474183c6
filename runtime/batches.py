"""Records of batches: how many rows each rank holds of the batch that a value came from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from .records import AHEAD
from .records import Batch as Batch
from .records import Source as Source
from .records import counts as counts
from .records import follow as follow
from .records import leaves as leaves
from .state import DistifyError

KEPT = 4  # sources that are over but whose last batch `of=` may still name
MANY = 256  # ids of tensors after which those of tensors that are gone are dropped


class BatchError(DistifyError):
    """It can't be told which batch a value belongs to; the message says how to name it."""


@dataclass
class Batches:
    """The records that are alive, and the rules by which a value finds its own.

    Args:
        rank, world_size: this process among all.
        agreed: which of several conditions hold on all ranks; asked by all ranks together.
    """

    rank: int = 0
    world_size: int = 1
    agreed: Callable[[list[bool]], list[bool]] | None = None
    clock: int = 0
    sources: list[Source] = field(default_factory=list)
    tensors: WeakTensorKeyDictionary = field(default_factory=WeakTensorKeyDictionary)
    _sites: dict[tuple[str, int], Source] = field(default_factory=dict)
    _ids: set[int] = field(default_factory=set)  # of those tensors, and of some that are gone

    def source(self, name: str, totals: Sequence[int] | None = None) -> Source:
        """Begin a pass over a loader."""
        ended = [s for s in self.sources if not (s.live or s.loose)]
        self.sources = [s for s in self.sources if s.live or s.loose or s in ended[-KEPT:]]
        self.clock += 1
        made = Source(name, self.clock, totals, previous=self.clock)
        self.sources.append(made)
        return made

    def site(self, place: str, call: int = 0) -> Source:
        """The source of a `split` call at this place in the code; `call` tells calls of one line apart."""
        if (place, call) not in self._sites:
            made = self._sites[place, call] = self.source(f"split at {place}")
            made.kind = "split"
        return self._sites[place, call]

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
        here = max(rows[self.rank], 1) if local is None else local
        made = Batch(tuple(rows), self.rank, here, source, self.clock, source.made, last)
        if source.latest is not None:
            source.previous = source.latest.serial
            source.earlier = [source.latest, *source.earlier[: AHEAD - 1]]
        source.latest = made
        source.made += 1
        held = list(leaves(batch))
        made.shapes = frozenset(tuple(tensor.shape) for tensor in held if tensor.is_floating_point())
        if len(self._ids) > MANY:
            self._ids = set(map(id, self.tensors))
        for tensor in held:
            self._enter(tensor, made)
        return made

    def _enter(self, tensor: Tensor, batch: Batch) -> None:
        self.tensors[tensor] = batch
        self._ids.add(id(tensor))

    def copied(self, tensor: Tensor, copy: Tensor) -> None:
        """Enter a copy of a tensor: it names the batch that the tensor does, if that does.

        Most copies are of parameters and gradients, many in a step: their ids tell without a look at weak references.
        """
        if id(tensor) not in self._ids:
            return
        if tensor.dim() and (known := self.tensors.get(tensor)) is not None:  # type: ignore[no-untyped-call]
            self._enter(copy, known)

    def current(self, caller: str, of: Any = None) -> Batch:
        """The batch that a value belongs to.

        Args:
            caller: the runtime function that asks, for messages.
            of: a tensor of the batch (as it came, or with the same number of rows), or a structure that holds one.

        Raises:
            BatchError: there is no batch, or more than one that it could be.
        """
        live = [s.latest for s in self.sources if (s.live or s.loose) and s.latest is not None]
        found = self._latest(caller, live) if of is None else self._named(caller, of)
        self._use(found, named=of is not None)
        return found

    def _use(self, found: Batch, named: bool) -> None:
        """A reduction is over this batch, and so over all parts of it.

        What one line cuts is one batch: `mean(loss(model(split(x)), split(y)))`. Where batches are named, so is what
        was cut right before or after: `x = split(data[i])`, `y = split(labels[i])`.
        """
        found.used = True
        live = [s.latest for s in self.sources if s.latest is not None and s.kind == found.source.kind == "split"]
        others = [batch.serial for batch in live if batch.counts != found.counts]
        for batch in live:
            low, high = sorted((batch.serial, found.serial))
            beside = named and not any(low < serial < high for serial in others)
            if batch.counts == found.counts and (beside or batch.source.name == found.source.name):
                batch.used = True

    def _latest(self, caller: str, live: list[Batch]) -> Batch:
        if not live:
            raise BatchError(
                f"runtime.{caller}() stands outside any batch: no loop over a sharded loader is running and nothing "
                f"was split. Move it into the loop, or name a tensor of the batch: runtime.{caller}(…, of=tensor)."
            )
        latest = max(live, key=lambda b: b.serial)
        if latest.source.apart:
            raise BatchError(
                f"runtime.{caller}(): {latest.source.name} is read ahead in another thread, so its latest batch need "
                f"not be the one that is in use. Name a tensor of the batch: runtime.{caller}(…, of=tensor)."
            )
        for other in live:
            if other.counts != latest.counts and (latest.source.loose or self._confused(latest.source, other.source)):
                raise BatchError(
                    f"runtime.{caller}(): two batches are in use, {_describe(latest)} and {_describe(other)}. "
                    f"Name a tensor of the one that the value comes from: runtime.{caller}(…, of=tensor)."
                )
        return latest

    def _confused(self, now: Source, other: Source) -> bool:
        """Whether values of both sources may be in use, so that the latest record need not be the one that is meant.

        They take turns, as `zip(a, b)` makes them, or were split once each, as a training and a test set before the
        loop. A batch that a reduction used before the other came is no such case: one source runs after the other, or
        inside one of its steps. Nor is what was split in the iteration before the one that a loader's batch begins.
        """
        if now.latest is None or other.latest is None or other.latest.used:
            return False
        then = other.latest.serial
        if now.kind == "loader" and other.kind == "split" and now.previous < then:
            return False
        if any(s.previous > then for s in self.sources if s.made > 1):
            return False  # a whole loop ran since
        once = now.kind == other.kind == "split" and now.made == other.made == 1
        return once or other.previous < now.previous < then < now.latest.serial

    def _in_use(self, found: list[Batch]) -> list[Batch]:
        """Without what was made by hand before another source took over: its loop is most likely over."""
        latest = max(found, key=lambda b: b.serial, default=None)
        split = [b for b in found if b is not latest and b.source.kind == "split"]
        over = [b for b in split if latest is not None and not self._confused(latest.source, b.source)]
        return [b for b in found if not any(b is gone for gone in over)]

    def _named(self, caller: str, of: Any) -> Batch:
        if isinstance(of, Batch):
            return of
        tensors = list(leaves(of))
        for tensor in tensors:
            known = self.tensors.get(tensor)  # type: ignore[no-untyped-call]
            if isinstance(known, Batch):
                return known
        rows = {t.shape[0] for t in tensors if t.dim() > 0}
        # What was computed from a batch's tensor is found by its rows: among the batches in use, else among
        # those just before them, since a script may fetch its next batch early.
        live = [s.latest for s in self.sources if s.latest is not None and (s.live or s.loose)]
        past = [s.latest for s in self.sources if s.latest is not None and not (s.live or s.loose)]
        past += [batch for s in self.sources for batch in s.earlier]
        fits = self._fitting([*live, *past], rows)
        for candidates in (live, past):
            found = self._in_use([b for b in candidates if id(b) in fits])
            if any(b.counts != found[0].counts for b in found):
                raise BatchError(
                    f"runtime.{caller}(of=…): {' and '.join(map(_describe, found))} have the same number of rows on "
                    "this rank. Pass a tensor that the loader or split returned."
                )
            if found:
                return max(found, key=lambda b: b.serial)
        sizes = " or ".join(map(str, sorted(rows))) or "these"
        raise BatchError(
            f"runtime.{caller}(of=…): no batch in use has {sizes} rows on this rank (in use: "
            f"{', '.join(map(_describe, live)) or 'none'}). Pass a tensor that the loader or split returned."
        )

    def _fitting(self, candidates: list[Batch], rows: set[int]) -> set[int]:
        """Which batches have as many rows as a tensor that is a copy of one of theirs.

        Batches of different sizes may have slices of one size on some ranks and not on others: all ranks are asked
        then, so that they settle on the same batch.
        """
        distinct = {batch.counts: batch for batch in candidates}
        fits = [batch.local in rows for batch in distinct.values()]
        held = [[max(counts[rank], 1) for counts in distinct] for rank in range(self.world_size)]
        alike = any(len(set(rows_of_rank)) < len(distinct) for rows_of_rank in held)
        if alike and self.agreed is not None:
            fits = self.agreed(fits)
        found = {counts for counts, fit in zip(distinct, fits) if fit}
        return {id(batch) for batch in candidates if batch.counts in found}


def _describe(batch: Batch) -> str:
    return f"{batch.rows} of {batch.total} rows from {batch.source.name}"
