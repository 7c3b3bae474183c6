"""How far each sharded loader has come, so that a run which goes on from a checkpoint begins in the middle of a pass.

A pass is replayed: the random streams are set to what they were when it began, the loader is iterated, the streams are
set to what they were before the first draw (other loaders may have begun in between, as in `zip`), and what had been
drawn is passed over; of a map-style data set only the index lists, so that no sample is read. Then the streams are set
forward again.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader

from . import generators, samplers, streams
from .indices import Pass, Slices
from .state import DistifyError, state

Snapshot = dict[str, Any]


@dataclass(eq=False)
class Progress:
    """One pass over a loader.

    Attributes:
        begun: random streams and generators when it began.
        first: the same before the first index or batch was drawn; `None` if none was.
        drawing: what is done at that moment: notes `first`, or goes back to it.
        batches: how many the loop has got.
        digest: of the index lists that they were made from, 0 if there are none.
        over: it is exhausted.
        apart: it is read in another thread, ahead of what is in use.
        kept: workers of the pass before do its work (`persistent_workers`), so no seed was drawn for them.
        after: attributes of the samplers when the checkpoint was written that it is gone on from.
        saved: how many batches the loop had got when a checkpoint was written, `None` if none was.
    """

    begun: Snapshot
    first: Snapshot | None = None
    drawing: Callable[[Progress], None] | None = None
    batches: int = 0
    digest: int = 0
    over: bool = False
    apart: bool = False
    kept: bool = False
    after: dict[str, Any] = field(default_factory=dict)
    saved: int | None = None

    def draw(self) -> None:
        """Before an index or a batch is drawn."""
        if self.drawing is not None:
            now, self.drawing = self.drawing, None
            now(self)


@dataclass(eq=False)
class Position:
    """Of one sharded loader.

    Attributes:
        loader: weak reference to it.
        passes: iterators that are alive.
        resume: what the next pass passes over.
        kept: in the run that is gone on with, the next pass had its workers already.
        noted: tells which attributes of its samplers the run changes.
    """

    loader: weakref.ref[DataLoader[Any]]
    passes: weakref.WeakKeyDictionary[Any, Progress] = field(default_factory=weakref.WeakKeyDictionary)
    resume: Progress | None = None
    kept: bool = False
    noted: samplers.Noted = field(default_factory=dict)

    def iterate(
        self,
        loader: DataLoader[Any],
        start: Callable[[], Iterator[Any]],
        slices: Slices | None,
        make: Callable[[Iterator[Any], Pass | None, Progress], Iterator[Any]],
    ) -> Iterator[Any]:
        """A pass over a loader, from where it is to go on.

        Args:
            loader: this one, or a copy of it.
            start: makes its own iterator.
            slices: its index lists, where it has any.
            make: puts around that iterator what counts its batches.
        """
        progress, now = self._begin(loader)
        with self._making(loader):
            inner, indices = (start(), None) if slices is None else slices.watch(start, progress)
        made = make(inner, indices, progress)
        self._begun(loader, progress, now, made, indices)
        return made

    def _begin(self, loader: DataLoader[Any]) -> tuple[Progress, Snapshot | None]:
        """Before an iterator is made: what is to be passed over, and the streams to set when that is done."""
        self._say_left(loader)
        resume, self.resume = self.resume, None
        now = self.snapshot(loader)
        if resume is None:
            return Progress(now, drawing=partial(self._draw, loader), kept=self.kept or has_workers(loader)), None
        resume.drawing = partial(self._draw, loader)
        self._restore(loader, resume.begun)
        return resume, {**now, "samplers": resume.after}

    def _say_left(self, loader: DataLoader[Any]) -> None:
        """Say so if a checkpoint holds as running what the loop has left for good."""
        for one in self.passes.values():
            if one.over or one.saved is None or one.saved != one.batches:
                continue
            one.saved = None
            if state.rank == 0:
                warnings.warn(
                    f"runtime.save_state() has found a pass over {name_of(loader)} that had come to batch "
                    f"{one.batches}, but another one begins now: a run that goes on from that checkpoint would first "
                    "end the former. If the script has left it, delete its iterator before it saves: `del` the "
                    "variable that holds iter(loader), enumerate(loader) or zip(loader, …).",
                    stacklevel=4,
                )

    def snapshot(self, loader: DataLoader[Any]) -> Snapshot:
        """All streams that a pass may draw from, and what its samplers hold."""
        found = {"streams": streams.capture(), "generators": generator_states(loader)}
        return {**found, "samplers": samplers.changed(loader, self.noted)}

    def _restore(self, loader: DataLoader[Any], found: Snapshot) -> None:
        streams.restore(found["streams"])
        set_generators(loader, found["generators"])
        samplers.put_back(loader, found.get("samplers", {}), self.noted)

    def _draw(self, loader: DataLoader[Any], progress: Progress) -> None:
        if progress.first is None:
            progress.first = self.snapshot(loader)
        else:
            self._restore(loader, progress.first)

    @contextmanager
    def _making(self, loader: DataLoader[Any]) -> Iterator[None]:
        """While an iterator is made: no seed is drawn for workers that the run which is gone on with had already."""
        kept, self.kept = self.kept, False
        if not kept or has_workers(loader):
            yield
            return
        generator, loader.generator = loader.generator, torch.Generator()
        try:
            yield
        finally:
            loader.generator = generator

    def _begun(
        self, loader: DataLoader[Any], progress: Progress, now: Snapshot | None, iterator: Any, indices: Pass | None
    ) -> None:
        """After it: pass over what the pass had drawn already.

        Args:
            loader: this one, or a copy of it.
            progress, now: of `_begin`.
            iterator: of the pass; `skip(batches)` reads and drops batches.
            indices: its index lists, where it has any.

        Raises:
            DistifyError: the pass is not the one that was saved.
        """
        self.passes[iterator] = progress
        # The script may hold the loader no more: `for batch in runtime.shard(DataLoader(…))`. `progress` must not,
        # for the loader's own iterator holds that: in a cycle, workers end in a collection, which waits for each.
        iterator.loader = loader
        if now is None:
            return
        try:
            if indices is not None:
                if indices.caught is None:
                    indices.catch_up()
            else:
                iterator.skip(progress.batches)
        except StopIteration:
            raise DistifyError(_lost(loader, "it ends before the batch at which the checkpoint was written")) from None
        if indices is not None and indices.caught != progress.digest:
            raise DistifyError(_lost(loader, "its sampler draws other samples than before"))
        self._restore(loader, now)

    def running(self) -> Progress | None:
        """The pass that has begun and is not over.

        Raises:
            DistifyError: there are several, or it can't be told how far it is.
        """
        found = [one for one in self.passes.values() if not one.over]
        loader = self.loader()
        if not found or loader is None:
            return None
        if len(found) > 1 or found[0].apart:
            why = "is read in another thread, ahead of the batch in use" if found[0].apart else "runs more than once"
            raise DistifyError(
                f"runtime.save_state(): the pass over {name_of(loader)} {why}, so a run that goes on from here could "
                "not tell where to begin. Save between two passes."
            )
        return found[0]


def _lost(loader: DataLoader[Any], why: str) -> str:
    return (
        f"the pass over {name_of(loader)} that the checkpoint was written in can't be gone on with: {why}. Its order "
        "depends on more than the random streams at its beginning. Save at the end of a pass."
    )


def name_of(loader: DataLoader[Any]) -> str:
    return f"the loader over {type(loader.dataset).__name__}"


def has_workers(loader: DataLoader[Any]) -> bool:
    """Whether the workers of an earlier pass do the work of the next."""
    return getattr(loader, "_iterator", None) is not None


def of(loader: DataLoader[Any]) -> Position:
    """The position of a loader, from when it is sharded on."""
    known: list[Position] = state.extra.setdefault("positions", [])
    known[:] = [one for one in known if one.loader() is not None]
    found = Position(weakref.ref(loader), noted=samplers.note(loader))
    known.append(found)
    pending = state.extra.get("positions ahead", [])
    fits = next((one for one in pending if one[0]["signature"] == signature(loader)), None)
    if fits is not None:
        pending.remove(fits)
        fits[1](found)
    return found


def signature(loader: DataLoader[Any]) -> list[Any]:
    """What tells the loaders of a program apart: kind and size of the data set, batch size."""
    try:
        size: int | None = len(loader.dataset)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        size = None
    return [type(loader.dataset).__name__, size, loader.batch_size]


def generator_states(loader: DataLoader[Any]) -> Snapshot:
    """The states of those generators, by where."""
    return {name: generators.get_state(item) for name, item in samplers.held_generators(loader).items()}


def set_generators(loader: DataLoader[Any], found: Snapshot) -> None:
    """Set them to what `generator_states` returned."""
    held = samplers.held_generators(loader)
    for name, item in found.items():
        if name in held:
            generators.set_state(held[name], item)
