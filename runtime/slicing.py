"""Cutting a rank's rows out of nested batches: which dimension of each part runs over the samples, and the cut."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .state import DistifyError


class SliceError(DistifyError):
    """The batch dimension can't be told, or the parts of a batch disagree on it."""


@dataclass(frozen=True)
class Rows:
    """This part is cut along `dim`; a list of one entry per sample along 0."""

    dim: int


@dataclass(frozen=True)
class Count:
    """This part is the number of samples itself."""


@dataclass(frozen=True)
class Shared:
    """This part is the same for all samples."""


@dataclass(frozen=True)
class Parts:
    """This part is a container: the layouts of what it holds, by key or position."""

    items: Mapping[Any, Layout]


Layout = Rows | Count | Shared | Parts


def is_array(value: Any) -> bool:
    """Whether this is a tensor or a NumPy array, without importing NumPy."""
    return isinstance(value, Tensor) or (type(value).__module__ == "numpy" and hasattr(value, "shape"))


def parts(value: Any) -> dict[Any, Any] | None:
    """What a container holds, by key, position or attribute; `None` if it is no container."""
    if isinstance(value, Mapping) or (hasattr(value, "keys") and hasattr(value, "__getitem__")):
        return {key: value[key] for key in value.keys()}  # noqa: SIM118
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if is_array(value) or isinstance(value, (str, bytes, int, float, complex, type(None), torch.dtype, torch.device)):
        return None
    return dict(vars(value)) if hasattr(value, "__dict__") and not callable(value) else None


def rebuild(value: Any, made: dict[Any, Any]) -> Any:
    """A container of the same kind that holds other parts."""
    if isinstance(value, tuple):
        return type(value)(*made.values()) if hasattr(value, "_fields") else type(value)(made.values())
    if isinstance(value, list):
        return type(value)(made.values())
    if type(value) is dict:
        return made
    fresh = copy.copy(value)
    if isinstance(value, Mapping) or hasattr(value, "keys"):
        for key, part in made.items():
            fresh[key] = part
    else:
        for name, part in made.items():
            object.__setattr__(fresh, name, part)
    return fresh


def compare(batch: Any, longer: Any) -> Layout:
    """The layout of a batch, from what the same function makes of one sample more.

    Raises:
        SliceError: a part grew by something else than one row.
    """
    if is_array(batch):
        return _compare_arrays(batch, longer)
    if isinstance(batch, (list, tuple)) and len(longer) == len(batch) + 1:
        return Rows(0)
    if isinstance(batch, int) and not isinstance(batch, bool):
        return Count() if longer == batch + 1 else Shared()
    held = parts(batch)
    if held is None:
        return Shared()
    more = parts(longer)
    if more is None or held.keys() != more.keys():
        raise SliceError(f"a {type(batch).__name__} of {len(held)} entries depends on the samples")
    return Parts({key: compare(part, more[key]) for key, part in held.items()})


def _compare_arrays(batch: Any, longer: Any) -> Layout:
    before, after = tuple(batch.shape), tuple(longer.shape)
    if before == after:
        return Shared()
    grown = [dim for dim, size in enumerate(before) if len(after) == len(before) and after[dim] != size]
    if len(grown) == 1 and after[grown[0]] == before[grown[0]] + 1:
        return Rows(grown[0])
    raise SliceError(f"an array of shape {before} becomes {after} with one sample more, so its rows can't be told")


def by_size(batch: Any, dim: int = 0) -> Layout:
    """The layout of a batch whose arrays all have the samples along `dim`; flat lists have one entry per sample."""
    if is_array(batch):
        return Rows(dim) if len(batch.shape) > dim else Shared()
    if isinstance(batch, (list, tuple)) and batch and not any(is_array(b) or parts(b) is not None for b in batch):
        return Rows(0)
    held = parts(batch)
    return Shared() if held is None else Parts({key: by_size(part, dim) for key, part in held.items()})


def sizes(batch: Any, layout: Layout) -> Iterator[int]:
    """The number of samples by each part that is cut.

    Raises:
        SliceError: the batch has another structure than the layout.
    """
    if isinstance(layout, Rows):
        if is_array(batch):
            if len(batch.shape) <= layout.dim:
                raise SliceError(f"an array of shape {tuple(batch.shape)} has no dimension {layout.dim}")
            yield int(batch.shape[layout.dim])
        elif isinstance(batch, (list, tuple)):
            yield len(batch)
        else:
            raise SliceError(f"a {type(batch).__name__} stands where rows stood")
    elif isinstance(layout, Parts):
        held = parts(batch)
        if held is None or held.keys() != layout.items.keys():
            raise SliceError("the structure has changed")
        for key, part in held.items():
            yield from sizes(part, layout.items[key])


def cut(batch: Any, layout: Layout, low: int, high: int) -> Any:
    """Rows `low` to `high` of a batch, as views where its parts allow it, in the same structure."""
    if isinstance(layout, Shared):
        return batch
    if isinstance(layout, Count):
        return type(batch)(high - low)
    if isinstance(layout, Parts):
        held = parts(batch)
        assert held is not None
        return rebuild(batch, {key: cut(part, layout.items[key], low, high) for key, part in held.items()})
    if isinstance(batch, Tensor):
        rows = batch.narrow(layout.dim, low, high - low)
        return rows if layout.dim == 0 else rows.contiguous()  # as contiguous as the whole was: `view` must work
    if is_array(batch):
        return batch[(slice(None),) * layout.dim + (slice(low, high),)]
    return type(batch)(batch[low:high])


def learn(collate: Callable[[Any], Any], samples: list[Any], batch: Any) -> Layout:
    """The layout of `batch = collate(samples)`, found by collating one sample twice.

    Nothing is guessed from sizes: a padded length that happens to equal the batch size does not grow.

    Raises:
        SliceError: a part of the batch does not grow by one row with one sample.
    """
    layout: Layout = Shared()
    for sample in (*samples[:3], *samples[3:][-1:]):  # one that `collate` drops changes nothing: try another
        layout = compare(batch, collate(copy.deepcopy([*samples, sample])))
        if rows := set(sizes(batch, layout)):
            layout = counting(layout, batch, rows)
            check(collate, layout, samples, batch, sample)
            break
    return layout


def counting(layout: Layout, batch: Any, rows: set[int]) -> Layout:
    """The layout in which only a number of rows counts them: one token more for a sample more is a coincidence."""
    if isinstance(layout, Count) and batch not in rows:
        return Shared()
    held = parts(batch) if isinstance(layout, Parts) else None
    if held is None or not isinstance(layout, Parts):
        return layout
    return Parts({key: counting(layout.items[key], part, rows) for key, part in held.items()})


def check(collate: Callable[[Any], Any], layout: Layout, samples: list[Any], batch: Any, one: Any = None) -> None:
    """Make sure that every sample makes one row or none, where a batch has another number of rows than samples.

    Args:
        collate, layout, samples, batch: as in `learn`.
        one: a sample that makes a row; the first that does so is looked for if not given.

    Raises:
        SliceError: a sample makes several rows, as in a batch that is laid end to end.
    """
    if set(sizes(batch, layout)) == {len(samples)}:
        return
    for sample in samples:
        if one is None:
            one = sample if _rows(collate, layout, [sample, sample]) == 2 else None
        elif (found := _rows(collate, layout, [one, sample])) not in (1, 2):
            raise SliceError(f"two samples make {found} rows of it, so they can't be told apart")


def _rows(collate: Callable[[Any], Any], layout: Layout, samples: list[Any]) -> int:
    try:
        return max(sizes(collate(copy.deepcopy(samples)), layout), default=0)
    except SliceError:
        raise
    except Exception:  # nothing is left of samples that were all dropped
        return 0
