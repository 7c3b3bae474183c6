"""This rank's part of a tensor that lies in parts: boxes of the whole, which can be written and read by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from .meshes import copy_of, seat
from .sharded import local

Box = tuple[tuple[int, ...], Tensor]  # where its first element stands in the whole, and its values


@dataclass
class Piece:
    """What one rank holds of a tensor.

    Attributes:
        shape: of the whole.
        dtype: of its elements.
        boxes: what this rank holds; the boxes of all ranks cover the whole once, or as often as there are copies.
        source: what the backend made it from, and shares memory with.
        copy: which of the ranks that hold the same boxes this is, and how many they are.
    """

    shape: torch.Size
    dtype: torch.dtype
    boxes: list[Box]
    source: Any = None
    copy: tuple[int, int] = (0, 1)

    def box(self, offsets: tuple[int, ...]) -> Tensor:
        """The values of the box that begins there."""
        return next(values for at, values in self.boxes if at == offsets)


def of_rows(tensor: DTensor) -> Piece:
    """The part of a tensor that is cut along its first dimension, as FSDP cuts."""
    mine, (place, count) = local(tensor.detach()), seat(tensor)
    rows = -(-tensor.shape[0] // count)
    first = min(rows * place, tensor.shape[0])
    boxes = [((first, *[0] * (tensor.dim() - 1)), mine)] if mine.numel() else []
    return Piece(tensor.shape, tensor.dtype, boxes, tensor, copy_of(tensor))


def of_range(shape: torch.Size, start: int, values: Tensor) -> Piece:
    """The part of a tensor that holds consecutive elements of it, as ZeRO cuts.

    Args:
        shape: of the whole.
        start: position of the first element in the flattened whole.
        values: the elements, flat.
    """
    return Piece(shape, values.dtype, list(_boxes(tuple(shape), start, values.detach())), values)


def _boxes(shape: tuple[int, ...], start: int, values: Tensor) -> Iterator[Box]:
    """A range of elements as boxes: the rest of a row, whole rows, the beginning of a row; rows likewise."""
    if not values.numel():
        return
    if len(shape) < 2:
        yield (start,) * len(shape), values.view(values.shape if shape else ())
        return
    size = prod(shape[1:])
    row, inside = divmod(start, size)
    if inside:
        count = min(size - inside, values.numel())
        for offsets, box in _boxes(shape[1:], inside, values[:count]):
            yield (row, *offsets), box.unsqueeze(0)
        row, values = row + 1, values[count:]
    rows = values.numel() // size
    if rows:
        yield (row, *[0] * (len(shape) - 1)), values[: rows * size].view(rows, *shape[1:])
    for offsets, box in _boxes(shape[1:], 0, values[rows * size :]):
        yield (row + rows, *offsets), box.unsqueeze(0)
