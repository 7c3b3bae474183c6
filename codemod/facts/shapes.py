"""Where the batch dimension goes when a tensor is reshaped, permuted, joined or cut."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import rows, views
from .values import Value

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]
Shaper = Callable[..., "Value | None"]


def reshape(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value | None:
    """Value of a shape operation, `None` if the name is none."""
    handler = _HANDLERS.get(name)
    return handler(ip, operands, keywords, node, frame) if handler else None


def _permute(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    value, order = operands[0][1], rows.ints(operands, keywords, "dims")
    dim = value.batch.dim
    if dim is None or None in order or dim not in order:
        return views.moved(value, dim if not order else None)
    return views.moved(value, order.index(dim), len(order))


def _transpose(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    value, pair = operands[0][1], rows.ints(operands, keywords, "dim0", "dim1")
    if len(pair) != 2:
        pair = [0, 1]
    dim, ndim = value.batch.dim, value.batch.ndim
    resolved = [p + ndim if p is not None and p < 0 and ndim is not None else p for p in pair]
    if dim is None or None in resolved:
        return views.moved(value, None)
    if dim in resolved:
        other = resolved[1] if resolved[0] == dim else resolved[0]
        return views.moved(value, other if other is not None and other >= 0 else None, ndim)
    return value


def _adjoint(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """The last two dimensions swapped: in a matrix, the rows'."""
    batch = operands[0][1].batch
    return views.moved(operands[0][1], 1 - batch.dim if batch.ndim == 2 and batch.dim is not None else batch.dim)


def _move(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """movedim: one dimension taken out and put in elsewhere, those between move up."""
    value, pair = operands[0][1], rows.ints(operands, keywords, "source", "destination")
    dim, ndim = value.batch.dim, value.batch.ndim
    start, end = pair if len(pair) == 2 else (None, None)
    if dim is None or start is None or end is None or ((start < 0 or end < 0) and ndim is None):
        return views.moved(value, None)
    start, end = (p + (ndim or 0) if p < 0 else p for p in (start, end))
    if dim == start:
        return views.moved(value, end, ndim)
    return views.moved(value, dim - (start < dim) + (end <= dim - (start < dim)), ndim)


def _unsqueeze(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    value, where = operands[0][1], rows.ints(operands, keywords, "dim")
    dim, at = value.batch.dim, where[0] if where else None
    ndim = None if value.batch.ndim is None else value.batch.ndim + 1
    if dim is None or at is None:
        return views.moved(value, dim, ndim)
    return views.moved(value, dim + 1 if 0 <= at <= dim else dim, ndim)


def _squeeze(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """squeeze() without a dim drops the batch dimension of a slice of one row."""
    value, where = operands[0][1], rows.ints(operands, keywords, "dim")
    dim = value.batch.dim
    if not where:
        if value.is_sample and value.batch.ndim != 1:
            ip.sites.report("DST108", node)
        return views.moved(value, dim, flat=True)
    at = where[0]
    ndim = None if value.batch.ndim is None else value.batch.ndim - 1
    if dim is not None and at is not None and 0 <= at < dim:
        return views.moved(value, dim - 1, ndim, flat=ndim is None)
    return views.moved(value, dim, ndim, flat=ndim is None)


def _flatten(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    value, where = operands[0][1], rows.ints(operands, keywords, "start_dim", "end_dim")
    dim, start = value.batch.dim, (where[0] if where else 0)
    if dim is None or start is None:
        return views.moved(value, None)
    if start > dim or dim == 0:
        return views.moved(value, dim, 1 if not where else None)
    return views.moved(value, None)


_HANDLERS: dict[str, Shaper] = {
    "view": views.view,
    "reshape": views.view,
    "permute": _permute,
    "transpose": _transpose,
    "swapaxes": _transpose,
    "swapdims": _transpose,
    "t": _transpose,
    "adjoint": _adjoint,
    "diag_embed": lambda ip, o, k, n, f: views.moved(o[0][1], o[0][1].batch.dim if len(o) < 3 and not k else None),
    "movedim": _move,
    "moveaxis": _move,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "flatten": _flatten,
    "ravel": _flatten,
    "cat": rows.cat,
    "concat": rows.cat,
    "concatenate": rows.cat,
    "vstack": rows.cat,
    "row_stack": rows.cat,
    "hstack": rows.beside,
    "column_stack": rows.beside,
    "dstack": rows.beside,
    "stack": rows.stack,
    "chunk": rows.cut,
    "split": rows.cut,
    "tensor_split": rows.cut,
    "vsplit": lambda ip, o, k, n, f: rows.cut(ip, o[:1], {}, n, f),
    "unbind": rows.unbind,
    "expand": views.expand,
    "broadcast_to": views.expand,
    "repeat": views.repeat,
    "tile": views.repeat,
    "view_as": views.like_other,
    "expand_as": views.like_other,
    "reshape_as": views.like_other,
    "pad_sequence": rows.pad_sequence,
}
