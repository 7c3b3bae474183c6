"""Whole parameters for code outside of a forward: `full`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from .state import require


def full(x: Any) -> Any:
    """The whole tensors of parameters that may lie in parts, for regularisers, norms and histograms; differentiable.

    A collective where the backend cuts parameters into parts (fsdp, deepspeed with ZeRO 3): all ranks call it. What it
    returns has the values of now, and is differentiable once; changes of it are not changes of the parameter.

    Args:
        x: a parameter, or an iterable, list, tuple or mapping of parameters or of (name, parameter) pairs.

    Returns:
        The same kind of thing with whole tensors; an iterator for an iterator. `x` itself where nothing is cut.

    Raises:
        NotInitialized: `init` has not run.
    """
    backend = require("full").backend
    assert backend is not None
    if backend.name in ("single", "ddp"):
        return x
    return _full(backend, x)


def _full(backend: Any, x: Any) -> Any:
    if isinstance(x, Tensor):
        return backend.full(x)
    if isinstance(x, Mapping):
        return {name: _full(backend, value) for name, value in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(_full(backend, item) for item in x)
    if isinstance(x, Iterator):
        return (_full(backend, item) for item in x)
    return x
