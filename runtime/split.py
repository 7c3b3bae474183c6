"""Batches that the script makes itself: `split` cuts them, `draw` makes random tensors as long as the whole batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

from .batches import Batch, BatchError, counts
from .collate import take
from .collectives import together
from .slicing import SliceError, by_size, is_array
from .state import require, state
from .uncompiled import uncompiled

Structure = TypeVar("Structure")


@uncompiled
def split(batch: Structure, dim: int = 0) -> Structure:
    """Cut a batch that every rank holds whole, and take this rank's rows.

    Args:
        batch: a tensor, a NumPy array, a flat list with one entry per sample, or a tuple, named tuple, list or dict of
            such, nested as deep as it likes. Numbers and tensors without dimension `dim` stay as they are.
        dim: the dimension that runs over the samples (1 for sequence-first code).

    Returns:
        The same structure with this rank's contiguous rows (views); a copy of the first row if there are fewer rows
        than ranks, which no reduction counts.

    Raises:
        SliceError: the parts have different numbers of rows, or none.
    """
    require("split")
    assert state.config is not None
    assert state.batches is not None
    if state.world_size == 1 and state.config.accumulate == 1:
        return batch
    together("split")
    frame = sys._getframe(1)
    place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
    try:
        made = take(batch, by_size(batch, dim), state.rank, state.world_size)
        if made.total == 0:
            raise SliceError("nothing in it has rows")
    except SliceError as error:
        raise SliceError(
            f"runtime.split() at {place} can't cut the batch: {error}. Pass parts with one row per sample in "
            f"dimension {dim}, and cut parts with other dimensions in a call of their own."
        ) from None
    source = state.batches.site(place, frame.f_lasti)
    rows = counts(made.total, state.world_size)
    state.batches.record(source, rows, made.batch, local=made.local)
    cut: Structure = made.batch
    return cut


@uncompiled
def draw(function: Callable[..., Any], *args: Any, of: Any = None, **kwargs: Any) -> Any:
    """Call a random function at the size of the whole batch and take this rank's rows: the original's very numbers.

    `draw(torch.randn, bs, nz, device=d)`, `draw(torch.randn_like, x)`, `draw(torch.randint, 0, T, (bs,))`,
    `draw(torch.bernoulli, p)`, `draw(np.random.normal, 0, 1, (bs, nz))`. The number of this rank's rows is replaced by
    the batch's in the first of these that is there: `size=`, a tuple or list of sizes, tensors whose first dimension
    it is (their rows are gathered, but for `*_like`), a whole number.

    Args:
        function: draws from the default streams or from `generator=`; its result has the samples in dimension 0.
        args, kwargs: its arguments as the script would pass them for this rank's rows.
        of: a tensor of the batch whose number of rows is meant; needed where several batches are in use.

    Returns:
        What the function returns, this rank's rows of it.

    Raises:
        BatchError: no argument is this rank's number of rows, or it isn't clear which batch is meant.
    """
    require("draw")
    if state.world_size == 1:
        return function(*args, **kwargs)
    together("draw")
    assert state.batches is not None
    assert state.streams is not None
    batch = state.batches.current("draw", of)
    args, kwargs = _enlarge(function, args, kwargs, batch)
    with state.streams.replicated():
        whole = function(*args, **kwargs)
    if not is_array(whole) or len(whole.shape) == 0 or whole.shape[0] != batch.total:
        shape = tuple(whole.shape) if is_array(whole) else type(whole).__name__
        raise BatchError(
            f"runtime.draw({_name(function)}) returned {shape} where the first dimension should have the batch's "
            f"{batch.total} rows."
        )
    low = 0 if batch.filler else batch.start
    mine = whole[low : low + batch.local]
    # a leaf stays one: the script reads `.grad` of what it drew with `requires_grad=True`
    leaf = isinstance(whole, Tensor) and whole.requires_grad and whole.is_leaf
    return mine.detach().requires_grad_() if leaf else mine


def _enlarge(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], batch: Batch
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments for the whole batch."""
    local, total, values = batch.local, batch.total, list(args)
    size = kwargs.get("size")
    if size is not None and _first(size) == local:
        return args, {**kwargs, "size": _with_first(size, total)}
    for position, value in enumerate(values):
        if isinstance(value, (tuple, list)) and _first(value) == local:
            values[position] = _with_first(value, total)
            return tuple(values), kwargs
    like = _name(function).endswith("_like")
    if any(_has_rows(v, local) for v in (*values, *kwargs.values())):
        values = [_whole(v, batch, like) for v in values]
        return tuple(values), {key: _whole(v, batch, like) for key, v in kwargs.items()}
    found = [k for k, v in enumerate(values) if isinstance(v, int) and not isinstance(v, bool) and v == local]
    if found:
        # `randint(low, high, size)` counts in its last whole number, `randn(rows, …)` in its first.
        position = found[-1] if "randint" in _name(function) or "integers" in _name(function) else found[0]
        values[position] = total
        return tuple(values), kwargs
    raise BatchError(
        f"runtime.draw({_name(function)}): no argument is this rank's number of rows, {local} (of {total}). Take the "
        "size from a tensor of the batch, as in x.size(0); for a size that is the same on all ranks call "
        f"{_name(function)} itself."
    )


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _first(size: Any) -> Any:
    return size if isinstance(size, int) else size[0] if isinstance(size, (tuple, list)) and size else None


def _with_first(size: Any, total: int) -> Any:
    return total if isinstance(size, int) else type(size)([total, *size[1:]])


def _has_rows(value: Any, local: int) -> bool:
    return is_array(value) and len(value.shape) > 0 and value.shape[0] == local


def _whole(value: Any, batch: Batch, like: bool) -> Any:
    """A tensor of the batch at its whole size: empty where only its kind counts, else with the rows of all ranks."""
    if not _has_rows(value, batch.local):
        return value
    if not isinstance(value, Tensor):
        raise BatchError("runtime.draw() gathers tensors, not NumPy arrays: pass torch.from_numpy(array).")
    if like:
        return _empty(value, batch.total)
    from .gather import gather

    return gather(value, of=batch)


def _empty(value: Tensor, total: int) -> Tensor:
    """An empty tensor of `total` rows laid out in memory as `value` is: a `*_like` function fills it in that order."""
    shape = (total, *value.shape[1:])
    strides = value.stride()
    order = sorted(range(value.dim()), key=lambda dim: -strides[dim])
    if 0 in strides or order[0] != 0:
        return value.new_empty(shape)
    made = value.new_empty([shape[dim] for dim in order])
    return made.permute([order.index(dim) for dim in range(value.dim())])
