"""`replicated`: a random number of a forward that is the batch's, and so the same on all ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch

from .state import require, state
from .streams import Streams
from .uncompiled import uncompiled

KEPT = 2048  # draws that a recomputation can repeat: 5 kB each, more than a step of any model we know makes


@uncompiled
def replicated(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a random function on the stream that all ranks share, as the original draws outside of samples.

    Inside the forward of a prepared module torch's stream is private to the rank, so that dropout differs between
    slices. What is drawn for the batch as a whole must not: a layer that one rank skips and another runs.
    `if runtime.replicated(torch.rand, 1).item() < self.p`.

    A forward that `torch.utils.checkpoint` runs again in the backward gets the numbers that it got before.

    Args:
        function: draws from torch's default generators, the same number of values on every rank.
        args, kwargs: its arguments.

    Returns:
        What the function returns.

    Raises:
        NotInitialized: `init` has not run.
    """
    require("replicated")
    streams = state.streams
    if streams is None or state.world_size == 1:
        return function(*args, **kwargs)
    again = _known(streams)
    if again is not None:
        with streams.at(again):
            drawn = function(*args, **kwargs)
    elif streams.depth == 0:
        return function(*args, **kwargs)
    else:
        key = _key(streams)
        with streams.replicated():
            _keep(key, streams.states())
            drawn = function(*args, **kwargs)
    streams.skip()  # the next draw's private state is another
    return drawn


def _known(streams: Streams) -> list[torch.Tensor] | None:
    """Where this draw began when the forward ran first, if this is a recomputation; `None` if it is none.

    A recomputation sets the generators back to what they were at that place of the forward: to private states.
    """
    if torch._C._current_graph_task_id() == -1:  # no backward is running
        return None
    return _memory().get(_key(streams))


def _key(streams: Streams) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for held in streams.states():
        made.update(held.numpy().tobytes())
    return made.digest()


def _keep(key: bytes, states: list[torch.Tensor]) -> None:
    memory = _memory()
    memory[key] = states
    if len(memory) > KEPT:
        del memory[next(iter(memory))]


def _memory() -> dict[bytes, list[torch.Tensor]]:
    memory: dict[bytes, list[torch.Tensor]] = state.extra.setdefault("replicated draws", {})
    return memory
