"""Functions of tensors that hold the rows of the whole batch: which of them still do, and along which dimension."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import combining, dims, doubt, losses, shapes
from .joins import join_all
from .losstable import DIVISORS
from .torchnames import ALONG_DIM, HOST_COPIES, IDENTITY, MATRICES, METADATA, PAIRWISE, POSITIONS, REDUCTIONS, SUMMARIES
from .values import HOST, REDUCED, Batch, Value, union, whole

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]


def apply(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """Value of a function whose operands are the same on every rank, some of them whole batches."""
    everything = [*operands, *keywords.values()]
    values = [v for _, v in everything]
    params = union(v.params for v in values)
    first = values[0]
    if name in METADATA:
        return HOST
    if name in DIVISORS:
        reduction = losses.of_function(ip, name, node).reduction
        return Value(batch=whole(0) if reduction == "none" else REDUCED, params=params)
    if name in IDENTITY or name in HOST_COPIES or name == "type":
        return first
    if name in REDUCTIONS and first.batch.whole and not dims.is_elementwise(name, operands):
        return _reduced(ip, name, operands, keywords, frame)
    if name in SUMMARIES or name in ("dot", "vdot"):
        return Value(batch=REDUCED, params=params)
    if name in PAIRWISE | POSITIONS | MATRICES or name in ("matmul", "mm", "bmm", "inner", "einsum", "tensordot"):
        return Value(batch=_product(values), params=params)
    if name in ("cat", "concat", "concatenate", "stack"):
        return _joined(ip, name, operands, keywords, node, frame)
    shaped = shapes.reshape(ip, name, operands, keywords, node, frame)
    if shaped is not None:
        return shaped
    result = combining.elementwise(ip, everything, node, frame)
    pairs = name in ALONG_DIM and ALONG_DIM[name][2]
    return Value(items=(result, result)) if pairs else result


def _joined(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """Whole tensors joined: along their rows there are more of them, made here."""
    value = operands[0][1]
    members = value.items if value.items is not None else (value.element or value,)
    batch = join_all(members).batch
    along = doubt.dims_of(ip, operands, keywords, 1, frame) or 0
    if name == "stack":
        dim = None if batch.dim is None or not isinstance(along, int) else batch.dim + (0 <= along <= batch.dim)
        return Value(batch=whole(dim, ragged=batch.ragged))
    if dims.unsure(batch, along):
        return Value(batch=whole(None, batch.ndim))
    made = batch.dim is not None and dims.touch(batch, along)
    return Value(batch=whole(batch.dim, batch.ndim, ragged=batch.ragged), origin=node if made else None)


def _product(values: list[Value]) -> Batch:
    """A product of matrices: rows against others', or summed over the batch (`z.T @ z`)."""
    rows = [v.batch.dim for v in values if v.batch.whole]
    if rows == [1, 0]:
        return REDUCED
    return whole(0) if rows == [0] and values[0].batch.whole else whole()


def _reduced(ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], frame: Frame) -> Value:
    """A reduction: over the rows, or within each."""
    batch = operands[0][1].batch
    _, position, pairs = REDUCTIONS[name]
    over = doubt.dims_of(ip, operands, keywords, position, frame)
    params = union(v.params for _, v in [*operands, *keywords.values()])
    if over is not None and (batch.dim is None or dims.unsure(batch, over)):
        result = whole(None)
    elif over is None or (batch.dim is not None and dims.touch(batch, over)):
        result = REDUCED
    else:
        kept = dims.without(batch, over, dims.keeps(name, operands, keywords, position))
        result = whole(kept.dim, kept.ndim, ragged=batch.ragged)
    value = Value(batch=result, params=params)
    return Value(items=(value, value), params=params) if pairs and over is not None else value
