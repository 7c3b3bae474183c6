"""`shard`: the same DataLoader object, whose batches are this rank's slices of the original's batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeVar

import torch.utils.data.dataloader as torch_dataloader
from torch.utils.data import DataLoader, IterableDataset, IterDataPipe, MapDataPipe, default_collate, default_convert

from . import positions
from .collate import WholeCollate
from .indices import Slices
from .passes import BatchIterator
from .positions import Position
from .state import require, state
from .tracked import track
from .uncompiled import uncompiled
from .workers import PrivateFetcher, PrivateWorker

Loader = TypeVar("Loader", bound="DataLoader[Any]")


@dataclass
class Sharding:
    """How a loader is shared out.

    Attributes:
        kind: where the cut happens: "index" (its batch sampler's index lists), "whole" (after the user's collate_fn, or
            of what an iterable data set yields), "outside" (of what the loader's own `__iter__` yields), "item" (not at
            all: without a batch size, each item goes to all ranks and counts on rank 0).
        per_device: each rank gets whole batches.
        rank, world_size: this process among all.
        slices: stands in for the batch sampler.
        collate: wraps the user's function where `kind` is "whole".
        ahead: fetch one batch ahead, to know the last one (accumulation over a loader of unknown length).
    """

    kind: str
    per_device: bool
    rank: int
    world_size: int
    slices: Slices
    collate: WholeCollate | None
    ahead: bool


@uncompiled
def shard(loader: Loader) -> Loader:
    """Give this rank its slices of a DataLoader's batches.

    The original's batches, in its order, each cut into contiguous slices, the first ranks' larger by one where it does
    not divide. `len`, `batch_size`, `sampler` and the generators stay the original's. A rank without a row gets a copy
    of the batch's first row, which no reduction counts. With `batch="per-device"` rank r gets the whole batch k·N + r.

    Args:
        loader: a DataLoader or an object of a subclass; sharding it again changes nothing.

    Returns:
        The same object.

    Raises:
        TypeError: it is no DataLoader; cut what another source returns with `runtime.split`.
    """
    require("shard")
    if not isinstance(loader, DataLoader):
        raise TypeError(
            f"runtime.shard() takes a torch DataLoader, not a {type(loader).__name__}. Cut the batches of another "
            "source where they arrive: batch = runtime.split(batch)."
        )
    assert state.config is not None
    if state.world_size == 1 and state.config.accumulate == 1:
        return track(loader)
    if isinstance(loader, ShardedLoader):
        return loader
    loader.__dict__["_sharding"] = plan(loader)
    loader.__dict__["_position"] = positions.of(loader)
    loader.in_order = True  # all ranks must hold slices of the same batch
    loader.__class__ = _sharded(type(loader))  # type: ignore[assignment, arg-type]
    _say_arithmetic(loader)
    return loader


def plan(loader: DataLoader[Any]) -> Sharding:
    """Decide where a loader's batches are cut."""
    assert state.config is not None
    per_device = state.config.batch == "per-device" and state.world_size > 1
    iterable = isinstance(loader.dataset, IterableDataset)
    batched = loader.batch_sampler is not None
    custom = loader.collate_fn not in (default_collate, default_convert)
    if type(loader).__iter__ is not DataLoader.__iter__ or (not batched and custom and not iterable):
        kind = "outside"
    elif iterable:
        kind = "whole" if batched else "item"
    else:
        kind = "whole" if custom and not per_device else "index"
    ahead = state.config.accumulate > 1
    inner: Any = loader.batch_sampler if batched else loader.sampler
    uncut = kind != "index"
    slices = Slices(inner, state.rank, state.world_size, uncut, per_device and not uncut, ahead and not iterable)
    collate = None
    if kind == "whole":
        collate = WholeCollate(loader.collate_fn, *((0, 1) if per_device else (state.rank, state.world_size)))
    return Sharding(kind, per_device, state.rank, state.world_size, slices, collate, ahead)


class ShardedLoader(DataLoader[Any]):
    """What a sharded loader's class does differently; it goes in front of the loader's own class."""

    _sharding: Sharding
    _position: Position

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        make = partial(BatchIterator, self)
        return self._position.iterate(self, super().__iter__, self._sharding.slices, make)

    def __len__(self) -> int:
        sharding, batches = self._sharding, super().__len__()
        divided = sharding.slices.per_device  # by `Slices`, which `DataLoader.__len__` asks
        return -(-batches // sharding.world_size) if sharding.per_device and not divided else batches

    @property
    def _index_sampler(self) -> Any:
        sharding = self._sharding
        iterable = isinstance(self.dataset, IterableDataset)
        return super()._index_sampler if sharding.kind == "outside" or iterable else sharding.slices

    def _get_iterator(self) -> Any:
        sharding = self._sharding
        private = sharding.kind == "index" and sharding.world_size > 1
        collate, start = self.collate_fn, self.worker_init_fn
        if sharding.collate is not None:
            self.collate_fn = sharding.collate
        if private and self.num_workers > 0:
            self.worker_init_fn = PrivateWorker(start, sharding.rank)
        try:
            with _not_sharded_by_torch(self.dataset):
                iterator = super()._get_iterator()
        finally:
            self.collate_fn, self.worker_init_fn = collate, start  # what the user reads is what the user set
        if private and self.num_workers == 0:
            iterator._dataset_fetcher = PrivateFetcher(iterator._dataset_fetcher)  # type: ignore[attr-defined]
        return iterator


@lru_cache(maxsize=None)
def _sharded(kind: type[DataLoader[Any]]) -> type[DataLoader[Any]]:
    return type(f"Sharded{kind.__name__}", (ShardedLoader, kind), {"__module__": kind.__module__})


@contextmanager
def _not_sharded_by_torch(dataset: Any) -> Iterator[None]:
    """Data pipes shard themselves when a process group exists; here every rank must read the same."""
    name = "_get_distributed_settings"
    before: Callable[[], tuple[int, int]] | None = getattr(torch_dataloader, name, None)
    if before is None or not isinstance(dataset, (IterDataPipe, MapDataPipe)):
        yield
        return
    setattr(torch_dataloader, name, lambda: (1, 0))
    try:
        yield
    finally:
        setattr(torch_dataloader, name, before)


def _say_arithmetic(loader: DataLoader[Any]) -> None:
    """Once per run: what `per-device` does to the batch size and the number of steps, or that items aren't cut."""
    sharding: Sharding = loader._sharding  # type: ignore[attr-defined]
    if state.rank != 0 or state.world_size == 1:
        return
    ranks = sharding.world_size
    if sharding.per_device and loader.batch_size and "per-device" not in state.extra:
        state.extra["per-device"] = True
        try:
            steps = f", {len(loader)} steps per pass"
        except TypeError:
            steps = ""
        sys.stderr.write(
            f"distify: batch per device: {ranks} ranks × {loader.batch_size} rows = {ranks * loader.batch_size} rows "
            f"per step{steps}; the learning rate is not changed\n"
        )
    if sharding.kind == "item" and "item" not in state.extra:
        state.extra["item"] = True
        sys.stderr.write(
            "distify: a loader with batch_size=None is not cut: every rank computes the same items. If an item is a "
            "batch, remove runtime.shard() there and cut it in the loop: batch = runtime.split(batch)\n"
        )
