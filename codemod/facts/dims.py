"""The `dim` argument of reductions: what a call gives, and whether it takes the batch dimension away."""

from __future__ import annotations

import ast

from ..dataclass import dataclass
from .replacing import replace
from .values import Batch, Dep, Value

Operand = tuple[ast.expr, Value]


@dataclass(frozen=True)
class Past:
    """Dimensions from `start` on, up to one that can't be told: `tuple(range(1, x.dim()))`."""

    start: int


def span(arguments: list[Value]) -> range | Past | None:
    """The constant that `range(…)` is, as far as it can be told: its numbers, or where it starts."""
    given = [v.const if isinstance(v.const, int) else None for v in arguments]
    first = given[0] if len(given) > 1 else None
    if given and len(given) <= 3 and None not in given:
        return range(*[g for g in given if g is not None])
    return Past(first) if len(given) == 2 and first is not None and first >= 0 else None


def of_call(operands: list[Operand], keywords: dict[str, Operand], position: int) -> object:
    """The `dim` of a call: an int, a tuple of ints, `Past`, `None` if not given, "?" if it can't be told."""
    given = keywords.get("dim") or keywords.get("axis")
    if given is None and len(operands) > position:
        given = operands[position]
    if given is None or given[1].const is None:
        return None
    value = given[1]
    if value.items is not None:
        members = [v.const for v in value.items]
        return tuple(members) if all(isinstance(m, int) for m in members) else "?"
    if isinstance(value.const, range):
        return tuple(value.const)
    known = isinstance(value.const, (int, Past)) and not isinstance(value.const, bool)
    return value.const if known else "?"


def unsure(batch: Batch, dims: object) -> bool:
    """Whether these dims of a per-sample tensor may be the batch's, or another."""
    if isinstance(dims, Past):
        return batch.dim is None or dims.start <= batch.dim
    if dims == "?":
        return True
    if batch.dim is None or batch.ndim is not None:
        return False
    if dims in (-1, (-1,)):
        return batch.flat
    # Two dimensions are the fewest that such a tensor has, and samples are rarely matrices where this is written.
    return dims in (-2, (-2,)) and batch.dim == 0


def touch(batch: Batch, dims: object) -> bool:
    """Whether reducing these dims of a per-sample (or whole) tensor takes its batch dimension away."""
    if dims is None or dims == ():
        return True
    if isinstance(dims, Past):
        return False
    every = dims if isinstance(dims, tuple) else (dims,)
    if batch.dim is None:
        # Flattening puts the rows into the first dimension in all but exotic code.
        return batch.ndim == 1 or 0 in every
    return any(_same(d, batch.dim, batch.ndim) for d in every)


def _same(dim: object, rows: int, ndim: int | None) -> bool:
    if not isinstance(dim, int):
        return False
    return dim == rows or (dim < 0 and ndim is not None and dim + ndim == rows)


def without(batch: Batch, dims: object, keepdim: bool) -> Batch:
    """The batch type after dims that are not the batch's were reduced."""
    if keepdim:
        return batch
    if isinstance(dims, Past):
        return replace(batch, ndim=None, flat=True)
    every = [d for d in (dims if isinstance(dims, tuple) else (dims,)) if isinstance(d, int)]
    before = sum(1 for d in every if batch.dim is not None and 0 <= d < batch.dim)
    ndim = None if batch.ndim is None else batch.ndim - len(every)
    return replace(batch, dim=None if batch.dim is None else batch.dim - before, ndim=ndim, flat=ndim is None)


def keeps(name: str, operands: list[Operand], keywords: dict[str, Operand], position: int) -> bool:
    """Whether reduced dims are kept with size one (`keepdim=True`, or the argument after `dim`)."""
    given = keywords.get("keepdim") or keywords.get("keepdims")
    if given is None and len(operands) > position + 1 and not name.startswith(("std", "var")):
        given = operands[position + 1]
    return given is not None and given[1].const is True


def is_elementwise(name: str, operands: list[Operand]) -> bool:
    """Whether this is `max(a, b)` or `min(a, b)` of two tensors."""
    if name not in ("max", "min") or len(operands) < 2:
        return False
    other = operands[1][1]
    return other.dep >= Dep.GLOBAL and not isinstance(other.const, int)
