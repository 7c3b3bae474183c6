"""The `dim` argument of reductions: what a call gives, and whether it takes the batch dimension away."""

from __future__ import annotations

import ast
from dataclasses import replace

from .values import Batch, Dep, Value

Operand = tuple[ast.expr, Value]


def of_call(operands: list[Operand], keywords: dict[str, Operand], position: int) -> object:
    """The constant `dim` of a call: an int, a tuple of ints, `None` if not given, "?" if it can't be told."""
    given = keywords.get("dim") or keywords.get("axis")
    if given is None and len(operands) > position:
        given = operands[position]
    if given is None or given[1].const is None:
        return None
    value = given[1]
    if value.items is not None:
        members = [v.const for v in value.items]
        return tuple(members) if all(isinstance(m, int) for m in members) else "?"
    return value.const if isinstance(value.const, int) and not isinstance(value.const, bool) else "?"


def touch(batch: Batch, dims: object) -> bool:
    """Whether reducing these dims of a per-sample (or whole) tensor takes its batch dimension away."""
    if dims is None or dims == ():
        return True
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
