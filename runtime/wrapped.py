"""An iterator in place of a loader's own, of which it has all else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Wrapped(Iterator[Any]):
    """Passes on what it does not do itself; a subclass says what `next` is.

    Args:
        inner: the loader's own iterator.
    """

    def __init__(self, inner: Iterator[Any]) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not there yet: a copy is being made
            raise AttributeError(name)
        return getattr(self.inner, name)
