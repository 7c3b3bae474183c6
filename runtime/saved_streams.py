"""Random streams in a checkpoint: the replicated ones, which all ranks share, and each rank's private ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import streams
from .backends.pieces import Piece
from .saved_tree import Tensors, decode, encode
from .state import State
from .streams import Stream, mix


def collect(run: State, tensors: Tensors) -> dict[str, Any]:
    """The streams as they are now, as JSON; tensors go into `tensors`."""
    found: dict[str, Any] = {
        "replicated": encode(streams.capture(), "streams", tensors),
        "private": {},
        "processes": run.world_size,
    }
    for stream in [] if run.streams is None else run.streams.opened:
        if stream.private is None:
            continue
        name = stream.generator.device.type
        row = stream.private.unsqueeze(0)
        shape = torch.Size([run.world_size, row.shape[1]])
        tensors[f"private.{name}"] = Piece(shape, row.dtype, [((run.rank, 0), row)])
        found["private"][name] = {"seed": stream.seed, "tensor": f"private.{name}"}
    return found


def plan(run: State, found: dict[str, Any], new: Callable[[str], Any]) -> Callable[[], None]:
    """Where the streams are read to; what is returned sets them.

    Args:
        run: the run.
        found: what `collect` returned.
        new: a tensor that an entry is read into.
    """
    replicated = decode(found["replicated"], new)
    private = {name: (held["seed"], new(held["tensor"])) for name, held in found["private"].items()}

    def apply() -> None:
        streams.restore(
            {name: state for name, state in replicated.items() if name != "cuda" or torch.cuda.is_available()}
        )
        for stream in [] if run.streams is None or run.world_size == 1 else run.streams.open():
            kind = stream.generator.device.type
            if kind in private or found["processes"] != run.world_size:
                _set(run, stream, *private.get(kind, (None, None)))
            else:
                stream.private = None  # not begun yet

    return apply


def _set(run: State, stream: Stream, seed: int | None, rows: torch.Tensor | None) -> None:
    """Each rank goes on with its own stream; one that the run which saved had not begins a new one."""
    if rows is not None and run.rank < len(rows):
        stream.private, stream.seed = rows[run.rank].clone(), seed
        return
    stream.seed = stream.generator.initial_seed()
    now = int.from_bytes(streams.digest()[:8], "little")
    fresh = torch.Generator(stream.generator.device).manual_seed(mix(now, run.rank + 1))
    stream.private = fresh.get_state()


__all__ = ["collect", "plan"]
