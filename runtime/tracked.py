"""A loader on one process: nothing is cut, but a checkpoint wants to know how far it has come."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar

from torch.utils.data import DataLoader, IterableDataset

from . import guard, positions
from .indices import Pass, Slices
from .positions import Position, Progress
from .wrapped import Wrapped

Loader = TypeVar("Loader", bound="DataLoader[Any]")


def track(loader: Loader) -> Loader:
    """Count the batches of a loader's passes; the same object, which yields what it did."""
    if isinstance(loader, TrackedLoader):
        return loader
    own = type(loader).__iter__ is not DataLoader.__iter__  # it may yield what it likes
    if not own and not isinstance(loader.dataset, IterableDataset):
        loader.__dict__["_slices"] = Slices(loader._index_sampler, 0, 1, True, False, False)
    loader.__dict__["_position"] = positions.of(loader)
    loader.__class__ = _tracked(type(loader))  # type: ignore[assignment, arg-type]
    return loader


class TrackedLoader(DataLoader[Any]):
    """What a tracked loader's class does differently; it goes in front of the loader's own class."""

    _position: Position
    _slices: Slices | None = None

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        return self._position.iterate(self, super().__iter__, self._slices, TrackedIterator)

    @property
    def _index_sampler(self) -> Any:
        return super()._index_sampler if self._slices is None else self._slices

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A copy is an untracked loader, as it was."""
        return _remade, (
            _untracked(type(self)),
            {k: v for k, v in self.__dict__.items() if k not in ("_position", "_slices")},
        )


def _untracked(kind: type[Any]) -> type[Any]:
    """The class that a loader had."""
    return next(base for base in kind.__mro__ if not issubclass(base, TrackedLoader))


def _remade(kind: type[Any], attributes: dict[str, Any]) -> Any:
    made = object.__new__(kind)
    made.__dict__.update(attributes)
    return made


@lru_cache(maxsize=None)
def _tracked(kind: type[DataLoader[Any]]) -> type[DataLoader[Any]]:
    attributes = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (TrackedLoader, kind), attributes)


class TrackedIterator(Wrapped):
    """Yields what the loader's own iterator does.

    Args:
        inner: that iterator.
        indices: its index lists, where it has any.
        progress: how far it has come.
    """

    def __init__(self, inner: Iterator[Any], indices: Pass | None, progress: Progress) -> None:
        super().__init__(inner)
        self.indices, self.progress = indices, progress

    def __next__(self) -> Any:
        progress, indices = self.progress, self.indices
        progress.apart |= not guard.in_own_thread()
        if indices is None:
            progress.draw()
        try:
            found = next(self.inner)
        except StopIteration:
            progress.over = True
            raise
        except Exception:
            if indices is not None and indices.shares:
                progress.digest = indices.shares.popleft().digest  # the batch that failed
            raise
        progress.batches += 1
        if indices is not None and indices.shares:
            progress.digest = indices.shares.popleft().digest
        return found

    def skip(self, batches: int) -> None:
        """Read and drop."""
        self.progress.draw()
        for _ in range(batches):
            next(self.inner)
