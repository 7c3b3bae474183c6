"""Random numbers while a slice is fetched: each rank's own, in worker processes and in this one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import get_worker_info

from .guard import in_own_thread
from .state import state
from .streams import mix, numpy_random


class PrivateWorker:
    """A `worker_init_fn` that gives each rank's workers streams of their own, then calls the user's.

    All ranks draw the same base seed, so worker k of every rank would augment with the same numbers.

    Args:
        start: the user's function, or `None`.
        rank: this process among all.
    """

    def __init__(self, start: Callable[[int], None] | None, rank: int) -> None:
        self.start = start
        self.rank = rank

    def __call__(self, worker: int) -> None:
        seed = mix(torch.initial_seed(), self.rank + 1)
        torch.manual_seed(seed)
        random.seed(seed)
        numpy = numpy_random()
        if numpy is not None:
            numpy.seed(seed & 0xFFFFFFFF)
        info = get_worker_info()
        if info is not None:
            object.__setattr__(info, "seed", seed)  # WorkerInfo refuses plain assignment
        if self.start is not None:
            self.start(worker)


class PrivateFetcher:
    """Fetches in this process with the rank's own streams (`num_workers=0`).

    Args:
        inner: the loader's own fetcher.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def fetch(self, index: Any) -> Any:
        """The samples of an index list, collated."""
        if state.streams is None or not in_own_thread():  # streams can't be switched while another thread draws
            return self.inner.fetch(index)
        before = state.extra.get("fetching", False)
        state.extra["fetching"] = True
        try:
            with state.streams.fetching():
                return self.inner.fetch(index)
        finally:
            state.extra["fetching"] = before
