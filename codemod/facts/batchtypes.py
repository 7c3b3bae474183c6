"""Batch types: how a value depends on the batch, and how two of them join.

Order of `Dep` is the order of the join: a variable that holds a constant on one path and a slice on another is a slice.
"""

from __future__ import annotations

from enum import IntEnum

from ..dataclass import dataclass

UNTOLD = "?"
"""Stands for a divisor that can't be told."""


class Dep(IntEnum):
    """How a value depends on the batch.

    ROWS is a host integer linear in this rank's rows. PENDING is a value that a prepared forward has reduced over its
    slice; it is reduced over ranks where it arrives.
    """

    BOTTOM = 0
    GLOBAL = 1
    ROWS = 2
    SAMPLE = 3
    PENDING = 4
    COUPLED = 5
    UNKNOWN = 6


@dataclass(frozen=True)
class Batch:
    """Batch type of a value.

    Attributes:
        dep: the kind of dependence.
        dim: batch dimension of a SAMPLE or a whole; `None` where it was flattened together with others.
        ndim: number of dimensions, where known.
        flat: a SAMPLE of unknown `ndim` that may well have one number for each sample.
        kind, by: reduction that a PENDING waits for, and the source text of its divisor (`None`: rows); of the output
            of a library's model, the divisor of the loss in it (`UNTOLD`: that can't be told).
        ragged: a SAMPLE with a data-dependent number of rows (boolean mask).
        data: a GLOBAL computed from batches (not a constant of the program).
        whole: a GLOBAL with one row for each sample of the global batch; a host integer that is their number.
        exact: a ROWS that is the number of this rank's rows itself.
        mixed: a ROWS that is another number on some path.
        reason: why it is UNKNOWN or COUPLED; "cat" of a SAMPLE that holds slices one after another,
            "shaped" of a GLOBAL batch made by hand whose rows may have become part of another dimension.
    """

    dep: Dep = Dep.BOTTOM
    dim: int | None = None
    ndim: int | None = None
    flat: bool = False
    kind: str = ""
    by: str | None = None
    ragged: bool = False
    data: bool = False
    whole: bool = False
    exact: bool = False
    mixed: bool = False
    reason: str = ""


BOTTOM = Batch()
GLOBAL = Batch(Dep.GLOBAL)
REDUCED = Batch(Dep.GLOBAL, data=True)
ROWS = Batch(Dep.ROWS)
EXACT_ROWS = Batch(Dep.ROWS, exact=True)
COUNTED = Batch(Dep.GLOBAL, data=True, whole=True, exact=True)
SAMPLE = Batch(Dep.SAMPLE, dim=0)


def whole(dim: int | None = None, ndim: int | None = None, *, ragged: bool = False) -> Batch:
    """A tensor with the rows of the whole batch along `dim`, the same on every rank."""
    return Batch(Dep.GLOBAL, dim=dim, ndim=ndim, ragged=ragged, data=True, whole=True)


def join_batch(a: Batch, b: Batch) -> Batch:
    """Least upper bound of two batch types."""
    if a == b or b.dep is Dep.BOTTOM:
        return a
    if a.dep is Dep.BOTTOM:
        return b
    if a.dep is not b.dep:
        return _join_kinds(a, b) if a.dep > b.dep else _join_kinds(b, a)
    if a.dep is Dep.SAMPLE:
        return Batch(
            Dep.SAMPLE,
            dim=a.dim if a.dim == b.dim else None,
            ndim=a.ndim if a.ndim == b.ndim else None,
            flat=a.flat or b.flat,
            ragged=a.ragged or b.ragged,
            by=a.by if a.by == b.by else UNTOLD,
            reason=a.reason or b.reason,
        )
    if a.dep is Dep.PENDING and (a.kind, a.by) != (b.kind, b.by):
        return Batch(Dep.UNKNOWN, reason="different reductions reach it on different paths")
    if a.dep is Dep.GLOBAL:
        return _join_global(a, b)
    if a.dep is Dep.ROWS:
        return Batch(Dep.ROWS, exact=a.exact and b.exact, mixed=a.mixed or b.mixed)
    return a


def _join_kinds(upper: Batch, lower: Batch) -> Batch:
    """Join of two kinds: the one that depends more on the batch."""
    if upper.dep is Dep.ROWS:
        return Batch(Dep.ROWS, mixed=True)
    return upper


def _join_global(a: Batch, b: Batch) -> Batch:
    holders = [x for x in (a, b) if x.whole]
    dims = {x.dim for x in holders}
    return Batch(
        Dep.GLOBAL,
        dim=dims.pop() if len(dims) == 1 else None,
        ndim=a.ndim if a.ndim == b.ndim else None,
        ragged=any(x.ragged for x in holders),
        data=a.data or b.data,
        whole=bool(holders),
        exact=a.exact and b.exact,
        reason=a.reason or b.reason,
    )
