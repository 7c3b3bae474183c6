"""Reductions of tensors: over the batch dimension, where ranks have to meet, or within each sample."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import combining, creation, dims, doubt, losses, sinks
from .replacing import replace
from .torchnames import ALONG_DIM, REDUCTIONS
from .values import REDUCED, Batch, Dep, Value, tensor, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]


def reduction(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """mean, sum, max, …: over the batch dimension, or within each sample."""
    operand, value = operands[0]
    kind, position, pairs = REDUCTIONS[name]
    if value.is_sample and not frame.forward and _may_be_dim(name, operands):
        return combining.coupled(ip, operands[:1], node, frame, whole(None))
    if not value.is_sample or dims.is_elementwise(name, operands):
        return combining.elementwise(ip, operands, node, frame)
    over = doubt.dims_of(ip, operands, keywords, position, frame)
    doubtful = doubt.settle(ip, over, operands[:1], node, frame)
    if doubtful is not None:
        return Value(items=(doubtful, doubtful), params=doubtful.params) if pairs else doubtful
    if not dims.touch(value.batch, over):
        kept = dims.without(value.batch, over, dims.keeps(name, operands, keywords, position))
        result = replace(value.with_batch(kept), opaque=False, arg=None, items=None)
        return Value(items=(result, result), sources=value.sources) if pairs else result
    creation.settle(ip, value)
    if not kind or (over is not None and pairs):
        return combining.coupled(ip, operands, node, frame, REDUCED)
    by = None
    if kind == "mean" and is_uneven(value):
        by = row_divisor(ip, [operand])
        if by is None:
            reason = "the mean runs over rows whose number can't be written down"
            ip.sites.report("DST110", node, f"The divisor of this mean can't be told: {reason}.")
            return tensor(Batch(Dep.UNKNOWN, reason=reason))
    return sinks.reduce_here(ip, node, value, frame, kind, by)


def _may_be_dim(name: str, operands: list[Operand]) -> bool:
    """Whether the second operand of `max(x, other)` may be a dimension that can't be told, or a tensor."""
    if not dims.is_elementwise(name, operands):
        return False
    other = operands[1][1]
    known = other.made is not None or other.params or other.origin is not None or other.batch.data or other.batch.whole
    return other.dep is Dep.GLOBAL and not known


def is_uneven(value: Value) -> bool:
    """Whether the number of a value's rows is no multiple of one batch's: a masked selection, rows of two batches."""
    return value.batch.ragged or (value.batch.reason.startswith("cat") and len(value.sources) > 1)


def row_divisor(ip: Interpreter, nodes: Sequence[ast.expr]) -> str | None:
    """Source text that counts the rows of an uneven expression, `None` if nothing in it can be written twice."""
    for node in nodes:
        value = ip.current.get(node)
        if losses.is_pure(node) and value is not None and is_uneven(value):
            return f"{_held(ip, node)}.numel()"
    for node in nodes:
        for part in ast.walk(node):
            value = ip.current.get(part)
            parent = ip.parents.get(part)
            callee = isinstance(parent, ast.Call) and parent.func is part
            if value is None or callee or not isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)):
                continue
            if is_uneven(value) and value.batch.dim == 0 and losses.is_pure(part):
                return f"{_held(ip, part)}.shape[0]"
    return None


def _held(ip: Interpreter, node: ast.expr) -> str:
    plain = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
    return ip.text(node) if plain else f"({ip.text(node)})"


def along_dim(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """softmax, cumsum, sort, …: per sample unless they run along the batch dimension."""
    value = operands[0][1]
    position, default, pairs = ALONG_DIM[name]
    over = doubt.dims_of(ip, operands, keywords, position, frame)
    over = default if over is None else over
    doubtful = doubt.settle(ip, over, [*operands, *keywords.values()], node, frame)
    if doubtful is not None:
        result = doubtful
    elif value.is_sample and over is not None and dims.touch(value.batch, over):
        same = whole(value.batch.dim, value.batch.ndim, ragged=name in ("topk", "kthvalue", "diff"))
        result = combining.coupled(ip, [*operands, *keywords.values()], node, frame, same)
    else:
        result = combining.elementwise(ip, operands, node, frame)
    return Value(items=(result, result), sources=result.sources) if pairs else result


def summary(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """Over all rows, leaving none: bincount, unique, histc."""
    return combining.coupled(ip, [*operands, *keywords.values()], node, frame, REDUCED)
