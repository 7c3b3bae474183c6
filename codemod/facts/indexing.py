"""Functions that read or write by index along a dimension: scatter, index_add, gather, index_select, select, narrow."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import combining, dims, doubt, sinks
from .replacing import replace
from .torchnames import words
from .values import REDUCED, Batch, Dep, Value, tensor, whole

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]

WRITES = words(
    """
    scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ index_add index_add_ index_copy index_copy_
    index_fill index_fill_ index_reduce index_reduce_
    """
)
PUTS = words("index_put index_put_ put put_ masked_scatter masked_scatter_")
READS = words("gather index_select take_along_dim")
CUTS = words("select narrow")


def call(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """Value of a read or write by index; the second operand (or `dim=`) is the dimension."""
    everything = [*operands, *keywords.values()]
    target = operands[0][1]
    over = doubt.dims_of(ip, operands, keywords, 1, frame)
    along = over if isinstance(over, int) else None
    doubtful = None if over == "?" else doubt.settle(ip, over, everything, node, frame)
    if doubtful is not None:
        return doubtful
    if along is not None and target.is_sample and dims.touch(target.batch, along):
        along = target.batch.dim
    over_rows = along is None or (along == target.batch.dim if target.is_sample else along == 0)
    if name in CUTS:
        return _cut(ip, name, along, operands, node, frame)
    if name in READS:
        mixes = target.is_sample and over_rows
        return combining.coupled(ip, everything, node, frame) if mixes else _read(ip, along, operands, node, frame)
    if target.is_sample:
        mixes = over_rows and name in WRITES
        return combining.coupled(ip, everything, node, frame) if mixes else _same(ip, everything, node, frame)
    if name in PUTS or over_rows:
        return _into_whole(ip, everything, frame)
    return _same(ip, everything, node, frame)


def _same(ip: Interpreter, everything: list[Operand], node: ast.Call, frame: Frame) -> Value:
    return combining.elementwise(ip, [o for o in everything if o[1].dep is not Dep.ROWS], node, frame)


def _into_whole(ip: Interpreter, everything: list[Operand], frame: Frame) -> Value:
    """Rows of the batch are added up in something that all ranks hold: they are gathered first."""
    if frame.forward:
        return tensor(Batch(Dep.UNKNOWN, reason="rows are written into a tensor of all samples in the forward"))
    for operand, value in everything[1:]:
        if value.is_sample:
            sinks.gather(ip, operand, value, frame)
        elif value.dep is Dep.ROWS:
            sinks.count(ip, operand, frame)
    return replace(everything[0][1], batch=REDUCED, origin=None)


def _read(ip: Interpreter, along: int | None, operands: list[Operand], node: ast.Call, frame: Frame) -> Value:
    """Rows of a table picked by an index per sample, or features of each sample."""
    index = operands[-1][1]
    if not operands[0][1].is_sample and index.is_sample:
        return tensor(Batch(Dep.SAMPLE, dim=along if index.batch.dim == 0 else index.batch.dim), index)
    return combining.elementwise(ip, [o for o in operands if o[1].dep is not Dep.ROWS], node, frame)


def _cut(ip: Interpreter, name: str, along: int | None, operands: list[Operand], node: ast.Call, frame: Frame) -> Value:
    """select, narrow: a position or a range along a dimension."""
    value = operands[0][1]
    if not value.is_sample:
        return _same(ip, operands, node, frame)
    if along is None or along == value.batch.dim:
        result = REDUCED if name == "select" else whole(value.batch.dim, ragged=True)
        return combining.coupled(ip, operands, node, frame, result)
    dim = value.batch.dim
    before = name == "select" and dim is not None and 0 <= along < dim
    return value.with_batch(replace(value.batch, dim=dim - 1 if before and dim is not None else dim, ndim=None))
