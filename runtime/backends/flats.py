"""Flat buffers that hold parts of many parameters on each rank, as ZeRO's optimizers keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from ..lost import reach
from ..state import state
from .pieces import Piece, of_range


@dataclass(frozen=True)
class Place:
    """Where a parameter's elements lie.

    Attributes:
        flat: number of the flat buffer.
        pieces: for each rank the first of the parameter's elements that it holds, where that stands in the rank's
            buffer, and how many it holds.
    """

    flat: int
    pieces: tuple[tuple[int, int, int], ...]

    @property
    def mine(self) -> tuple[int, int, int]:
        """This rank's piece."""
        return self.pieces[state.rank]


class Flats:
    """The flat buffers of one engine.

    Args:
        places: by parameter.
        masters: this rank's buffers of the parameters, in the type of the optimizer's arithmetic.
        shapes: whole shapes of the parameters.
    """

    def __init__(
        self, places: Mapping[Tensor, Place], masters: Sequence[Tensor], shapes: Mapping[Tensor, torch.Size]
    ) -> None:
        self.places, self.masters, self.shapes = places, list(masters), shapes

    def master(self, p: Tensor) -> Tensor:
        """The buffer that holds this rank's part of a parameter."""
        return self.masters[self.places[p].flat]

    def part(self, p: Tensor, flat: Tensor) -> Tensor:
        """This rank's piece of a parameter in its buffer, or in one of the same layout."""
        _, at, count = self.places[p].mine
        return flat.detach().narrow(0, at, count)

    def cut(self, p: Tensor, value: Tensor) -> Tensor:
        """This rank's piece of a whole tensor."""
        start, _, count = self.places[p].mine
        return value.detach().reshape(-1)[start : start + count]

    def put(self, p: Tensor, value: Tensor | Piece, flat: Tensor) -> None:
        """Write this rank's piece of a tensor into a buffer."""
        self.part(p, flat).copy_(value.source if isinstance(value, Piece) else self.cut(p, value))

    def piece(self, p: Tensor, flat: Tensor) -> Piece:
        """This rank's piece of what a buffer holds for a parameter; shares its memory."""
        return of_range(self.shapes[p], self.places[p].mine[0], self.part(p, flat))

    def room(self, p: Tensor, dtype: torch.dtype) -> Piece:
        """Memory for a piece of a tensor like a parameter."""
        start, _, count = self.places[p].mine
        return of_range(self.shapes[p], start, torch.empty(count, dtype=dtype, device=self.master(p).device))

    def gather(self, p: Tensor, flat: Tensor) -> Tensor:
        """The whole of what a buffer of all ranks holds for a parameter; a collective."""
        return self.join(p, self.part(p, flat))

    def join(self, p: Tensor, part: Tensor) -> Tensor:
        """The whole of a tensor like a parameter, of which every rank has its piece; a collective."""
        pieces = self.places[p].pieces
        mine = part.detach().new_zeros(max(count for _, _, count in pieces))
        mine[: part.numel()] = part
        table = [torch.empty_like(mine) for _ in pieces]
        reach(dist.all_gather, table, mine, group=state.reduce_group)
        return torch.cat([row[:count] for row, (_, _, count) in zip(table, pieces, strict=True)]).view(self.shapes[p])
