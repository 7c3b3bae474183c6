"""What the samplers of a loader keep from pass to pass: generators, and attributes that the run changes.

A sampler may count its passes, or shuffle a list of its own once more in each. A fresh process builds it anew, so what
has changed since the loader was sharded goes into a checkpoint.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from . import generators
from .state import state

NUMBERS = (type(None), bool, int, float, str)
APART = (Dataset, DataLoader, Tensor, nn.Module, Mapping, type)  # no samplers, though one may iterate over them
DEPTH = 4


def holders(loader: DataLoader[Any]) -> Iterator[tuple[str, Any]]:
    """The samplers of a loader, and those that they are made of, by where."""
    seen: set[int] = set()
    found = [("sampler", loader.sampler, DEPTH), ("batch_sampler", loader.batch_sampler, DEPTH)]
    while found:
        where, one, depth = found.pop(0)
        if id(one) in seen or not hasattr(one, "__dict__") or isinstance(one, APART):
            continue
        seen.add(id(one))
        yield where, one
        for name, item in vars(one).items() if depth else ():
            inside = enumerate(item) if type(item) in (list, tuple) and len(item) < 100 else ()
            parts = [(f"{where}.{name}", item), *((f"{where}.{name}.{k}", part) for k, part in inside)]
            found += [(at, part, depth - 1) for at, part in parts if hasattr(type(part), "__iter__")]


def held_generators(loader: DataLoader[Any]) -> dict[str, Any]:
    """The generators that a loader and its samplers keep, by where."""
    places = [("", loader), *holders(loader)]
    if state.world_size == 1:  # elsewhere samples are fetched with streams of the process
        places.append(("dataset", loader.dataset))
    return {
        f"{where}.{name}": item
        for where, holder in places
        for name, item in getattr(holder, "__dict__", {}).items()
        if generators.get_state(item) is not None
    }


Noted = dict[str, tuple[int, Any]]


def note(loader: DataLoader[Any]) -> Noted:
    """The attributes of the samplers, by where: what tells whether one is still the same, and numbers and texts."""
    return {
        where: (mark, getattr(one, name) if type(getattr(one, name)) in NUMBERS else None)
        for where, one, name, mark in _attributes(loader)
    }


def changed(loader: DataLoader[Any], noted: Noted) -> dict[str, Any]:
    """Copies of the attributes that are others than when they were noted, by where."""
    return {
        where: copy.deepcopy(getattr(one, name))
        for where, one, name, mark in _attributes(loader)
        if noted.get(where, (None, None))[0] != mark
    }


def put_back(loader: DataLoader[Any], found: Mapping[str, Any], noted: Noted) -> None:
    """Set attributes to what `changed` returned, and numbers that it did not to what was noted."""
    for where, one, name, mark in list(_attributes(loader)):
        if where in found:
            setattr(one, name, copy.deepcopy(found[where]))
        elif where in noted and noted[where][0] != mark and type(getattr(one, name)) in NUMBERS:
            setattr(one, name, noted[where][1])


def _attributes(loader: DataLoader[Any]) -> Iterator[tuple[str, Any, str, int]]:
    for where, one in holders(loader):
        for name, item in vars(one).items():
            mark = _mark(item)
            if mark is not None:
                yield f"{where}.{name}", one, name, mark


def _mark(value: Any, mark: int = 0, depth: int = DEPTH) -> int | None:
    """A hash of numbers and texts, or of containers and arrays of them; `None` for anything else."""
    kind = type(value)
    if kind in NUMBERS:
        return zlib.crc32(repr(value).encode(), mark)
    if isinstance(value, Tensor):
        if value.layout != torch.strided or value.device.type != "cpu" or value.dtype == torch.bfloat16:
            return None
        value = value.detach().resolve_conj().numpy()
    if type(value).__module__ == "numpy" and hasattr(value, "dtype") and value.dtype.kind in "biufc":
        return zlib.crc32(value.tobytes(), zlib.crc32(repr((value.dtype.str, value.shape)).encode(), mark))
    if kind not in (list, tuple, dict) or not depth:
        return None
    items = [part for pair in value.items() for part in pair] if kind is dict else value
    if set(map(type, items)) <= set(NUMBERS):
        return zlib.crc32(repr(value).encode(), mark)
    for item in items:
        inner = _mark(item, mark, depth - 1)
        if inner is None:
            return None
        mark = zlib.crc32(b"[", inner)
    return mark
