"""Which tensors of the script's own hold rows of this rank's slice, and which the same whole on every rank.

Most are told without asking the other ranks: what `shard` and `split` returned, and what has the shape of such a
tensor, as a perturbation of the images has, are slices; an `nn.Parameter` is whole. Values decide on the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..collectives import all_reduce, exchange
from ..places import caller
from ..records import Batch
from ..state import DistifyError, state


def whole_on_all(tensors: Sequence[Tensor]) -> list[bool]:
    """For each tensor whether all ranks hold the same whole one; else it is a slice.

    Args:
        tensors: in the same order on all ranks.

    Raises:
        DistifyError: the ranks hold different numbers of tensors, or it can't be told.
    """
    known = [_without_asking(x) for x in tensors]
    asked = [k for k, answer in enumerate(known) if answer is None]
    if asked:
        counts = [line[0] for line in exchange([len(asked)], room=1)]
        if len(set(counts)) > 1:
            raise DistifyError(
                f"a backward reached {', '.join(map(str, counts))} leaf tensors of the script's own on the ranks: it "
                "can't be told which of them belong together. Make them rows of one tensor that has the batch's shape."
            )
        place = caller()
        for k, equal in zip(asked, _equal([tensors[k] for k in asked]), strict=True):
            known[k] = _decide(tensors[k], equal, (place, k))
    return [bool(answer) for answer in known]


def _without_asking(x: Tensor) -> bool | None:
    """What this rank can tell, and would tell alike on every rank."""
    if isinstance(x, nn.Parameter):
        return True
    if state.batches is not None and isinstance(state.batches.tensors.get(x), Batch):  # type: ignore[no-untyped-call]
        return False
    # A matrix may have the shape of the batch by chance; images hardly.
    return False if x.dim() > 2 and any(_fits(x, batch) for batch in _batches()) else None


def _decide(x: Tensor, equal: bool, place: Any) -> bool:
    """Whole if it has equal values, unless these could be those that slices start with, as zeros are."""
    seen: dict[Any, bool] = state.extra.setdefault("whole leaves", {})
    rows = [b for b in _batches() if x.dim() > 0 and set(_held(b)) == {x.shape[0]} and b.total != x.shape[0]]
    if not (equal and rows and bool((x == x.reshape(-1)[:1]).all())):
        seen[place] = equal
    elif place not in seen:
        if not (x.dim() > 1 and any(_fits(x, batch) for batch in rows)):
            raise DistifyError(
                f"a leaf tensor of shape {tuple(x.shape)} holds one number on all ranks, and as many rows as each has "
                f"of the batch ({x.shape[0]} of {rows[0].total}): is it one for all, or this rank's rows? In the first "
                "case make it an nn.Parameter, in the second let runtime.split(…) cut it from one of the batch's size."
            )
        return False
    return seen[place]


def _fits(x: Tensor, batch: Batch) -> bool:
    """Whether it has the shape of a tensor of the batch; one row might be a tensor that serves all rows."""
    return tuple(x.shape) in batch.shapes and x.shape[0] == batch.local and min(_held(batch)) > 1


def _held(batch: Batch) -> list[int]:
    """Rows that the tensors of every rank hold."""
    return [max(rows, 1) for rows in batch.counts]


def _batches() -> Iterator[Batch]:
    for source in state.batches.sources if state.batches is not None else ():
        yield from (batch for batch in (source.latest, *source.earlier[:1]) if batch is not None)


def _equal(tensors: Sequence[Tensor]) -> list[bool]:
    """Whether tensors hold the same values on all ranks, told by their sizes and two sums over their elements."""
    device = state.device
    marks = torch.stack([_marks(x).to(device) for x in tensors])
    both = torch.cat([marks, -marks])
    all_reduce(both, torch.distributed.ReduceOp.MAX)
    high, low = both.chunk(2)
    found: list[bool] = (high == -low).all(1).tolist()
    return found


def _marks(x: Tensor) -> Tensor:
    flat = x.detach().reshape(-1)
    flat = (torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat).double()
    weights = torch.arange(flat.numel(), device=x.device, dtype=torch.float64).add_(1.0).sqrt_()
    return torch.stack([flat.new_tensor(float(flat.numel())), flat.sum(), (flat * weights).sum()])
