"""Whether the backward or clipping that runs is one of the runtime's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .state import DistifyError, state


@contextmanager
def own() -> Iterator[None]:
    """Around what the runtime asks torch to do."""
    before = state.extra.get("own", False)
    state.extra["own"] = True
    try:
        yield
    finally:
        state.extra["own"] = before


def is_own() -> bool:
    """Whether the runtime runs it."""
    return bool(state.extra.get("own"))


def check_own() -> None:
    """What the backward of each reduction asks: outside of the runtime its gradients are one rank's part, N-fold.

    Raises:
        DistifyError: the script, or a library, called torch's own backward on a reduced value.
    """
    if state.world_size == 1 or is_own():
        return
    called, instead = state.extra.get("raw", ("backward() or grad()", "runtime.backward(loss) or runtime.grad(…)"))
    raise DistifyError(
        f"{called} of torch ran on a value that runtime.mean, runtime.sum or the like made from all ranks' rows: its "
        f"gradients would be those of this rank's rows only. Write {instead}."
    )
