"""`cycle`: a loader gone round again and again, with the batches of its first pass."""

from __future__ import annotations

import weakref
from collections.abc import Generator, Iterable, Iterator
from typing import TypeVar

from torch import Tensor

from .batches import Batch, Batches, follow, leaves
from .records import Source
from .state import require, state

Item = TypeVar("Item")


def cycle(iterable: Iterable[Item]) -> Generator[Item, None, None]:
    """`itertools.cycle` over sharded loaders: each round yields the very batches of the first, recorded anew.

    torch's own shuffle happens once, as with `itertools.cycle`, and all batches are kept. Reductions know the batch
    that a later round has come to, and accumulation windows end where a round does.

    Args:
        iterable: a sharded loader, or what goes over one or several: `zip(a, b)`, a generator.

    Returns:
        An iterator without end.

    Raises:
        NotInitialized: `init` has not run.
    """
    require("cycle")
    made = _rounds(iter(iterable))  # at once, as there: a loader draws its seed when it is begun
    state.extra.setdefault("cycles", []).append(weakref.ref(made))
    return made


def _rounds(first: Iterator[Item]) -> Generator[Item, None, None]:
    batches = state.batches or Batches()
    kept: list[tuple[Item, list[tuple[Batch, list[Tensor]]]]] = []
    before = batches.clock
    for item in first:
        found = [s.latest for s in batches.sources if s.latest is not None and s.latest.serial > before]
        found.sort(key=lambda batch: batch.serial)
        kept.append((item, [(batch, _tensors(batches, batch, item)) for batch in found]))
        yield item
        before = batches.clock
    while kept:
        owner, again = _Round(), dict[Source, Source]()
        for item, made in kept:
            for batch, tensors in made:
                _record(batches, again, batch, tensors, owner)
            yield item
        for source in again.values():
            source.finish()


class _Round:
    """Lives as long as a round goes on."""


def _tensors(batches: Batches, batch: Batch, item: object) -> list[Tensor]:
    """The tensors of an item that name a batch."""
    return [x for x in leaves(item) if batches.tensors.get(x) is batch]  # type: ignore[no-untyped-call]


def _record(batches: Batches, again: dict[Source, Source], batch: Batch, tensors: list[Tensor], owner: _Round) -> None:
    """Enter a batch of the first pass once more."""
    source = again.get(batch.source)
    if source is None:
        source = again[batch.source] = batches.source(batch.source.name, batch.source.totals)
        source.kind = batch.source.kind
        follow(owner, source)
    batches.record(source, batch.counts, tensors, local=batch.local, last=batch.last)
