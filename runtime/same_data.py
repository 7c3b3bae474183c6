"""All ranks must read the same batches, of which each takes its rows: else one rank ends its pass and others wait, or
rows of different batches meet. Compared when a pass begins; at each batch if the loader's end isn't known ahead.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from typing import Any

import torch

from .collectives import exchange, gather_objects
from .guard import all_here
from .meeting import meet
from .records import Source
from .state import DistifyError

REMEDY = (
    "All ranks must read the same data in the same order, and the runtime gives each its rows: remove what divides, "
    "filters or shuffles by rank (RANK, get_rank(), split_dataset_by_node, os.urandom, files that one machine lacks)."
)
ENDED = -1


class LoadersDiffer(DistifyError):
    """The ranks do not read the same batches."""


def check_pass(name: str, sizes: Any, generators: Sequence[Any]) -> None:
    """Compare what ranks know ahead about a pass.

    Args:
        name: of the loader.
        sizes: samples and rows of a batch, `None` where they are not known ahead.
        generators: that the pass draws from, `None` for those of the process.

    Raises:
        LoadersDiffer: ranks begin passes that differ.
    """
    if not all_here():
        return
    meet("a pass over a sharded loader")
    states = [zlib.crc32(g.get_state().numpy().tobytes()) for g in generators if isinstance(g, torch.Generator)]
    mine = name, None if sizes is None else (sizes.samples, sizes.rows), states
    found = gather_objects(mine)
    if all(other == found[0] for other in found):
        return
    ours, (rank, theirs) = found[0], next((k, other) for k, other in enumerate(found) if other != found[0])
    if theirs[0] != ours[0]:
        raise LoadersDiffer(
            f"rank 0 begins a pass over {ours[0]}, rank {rank} over {theirs[0]}. All ranks must take the same "
            "branches: decide by values that are equal on all, as runtime.any(…) and reduced values are."
        )
    if theirs[1] != ours[1]:
        raise LoadersDiffer(f"{name} has {_size(ours[1])} on rank 0, {_size(theirs[1])} on rank {rank}. {REMEDY}")
    raise LoadersDiffer(
        f"the generator of {name} differs between ranks 0 and {rank}: it was seeded or drawn from by rank, so each "
        "would shuffle otherwise. Seed it with the same number on all ranks."
    )


def _size(sizes: tuple[int, int] | None) -> str:
    return "an unknown size" if sizes is None else f"{sizes[0]} samples in batches of {sizes[1]}"


def check_batch(source: Source, rows: Sequence[int] | None, mark: int = 0) -> None:
    """Compare what ranks read.

    Args:
        source: the pass.
        rows: of each rank in the batch that was read, `None` at the end of the pass.
        mark: tells which samples it holds, 0 where that is not known.

    Raises:
        LoadersDiffer: ranks read different batches, or one has none.
    """
    if not all_here() or source.apart:
        return
    meet("a batch of a sharded loader")
    found = exchange([ENDED if rows is None else sum(rows), mark], room=2)
    if all(other == found[0] for other in found):
        return
    rank, theirs = next((k, other) for k, other in enumerate(found) if other != found[0])
    if theirs[0] == found[0][0]:
        difference = f"batch {source.made + 1} of {source.name} holds other samples on rank {rank} than on rank 0"
    else:
        difference = f"{source.name} differs between ranks: after {source.made} batches " + ", ".join(
            f"rank {k} has {'no more' if held == ENDED else f'a batch of {held} rows'}"
            for k, held in ((0, found[0][0]), (rank, theirs[0]))
        )
    raise LoadersDiffer(f"{difference}. {REMEDY}")


def mark(index: Any) -> int:
    """A number that tells lists of sample numbers apart; 0 for other indices."""
    try:
        return zlib.crc32(array("q", [int(k) for part in index for k in part]).tobytes())
    except (TypeError, ValueError, OverflowError):
        return 0
