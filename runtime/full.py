"""Whole parameters for code outside of a forward: `full` to read them, `whole` to change them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from .backends.base import CUTTING
from .collectives import together
from .state import require
from .uncompiled import uncompiled


@uncompiled
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


@contextmanager
def whole(*modules: nn.Module, grads: bool = False) -> Iterator[None]:
    """A block in which the parameters of modules are whole, on all ranks, and may be changed in any way.

    Weight clipping, averages of weights that are swapped in and out, layers set by hand: changes of values, of `.data`
    and of `requires_grad` are kept. A collective where the backend cuts parameters into parts (fsdp, deepspeed); does
    nothing elsewhere. All ranks do the same in it, and no forward or backward of these modules runs in it.

    Args:
        modules: prepared ones or parts of them; others are whole anyway.
        grads: whether `.grad` is whole and may be changed too.

    Raises:
        NotInitialized: `init` has not run.
        DistifyError: only one rank is here, a forward runs in the block, or a parameter has got another shape or type.
    """
    run = require("whole")
    assert run.backend is not None
    if grads:
        run.backend.complete()
    if run.backend.name not in CUTTING:
        yield
        return
    together("whole")
    run.extra["whole"] = run.extra.get("whole", 0) + 1
    try:
        with run.backend.open(modules, grads):
            yield
    finally:
        run.extra["whole"] -= 1
