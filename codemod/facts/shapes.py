"""Where the batch dimension goes when a tensor is reshaped, permuted, joined or cut."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from . import loops, operators
from .values import Batch, Dep, Value, join_all, tensor

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


def _ints(operands: list[Operand], keywords: dict[str, Operand], *names: str) -> list[int | None]:
    """Constant integer arguments after the receiver (given one by one, as a tuple, or by keyword)."""
    values: list[Value] = []
    for _, value in operands[1:]:
        values.extend(value.items if value.items is not None else (value,))
    for name in names:
        if name in keywords:
            held = keywords[name][1]
            values.extend(held.items if held.items is not None else (held,))
    return [v.const if isinstance(v.const, int) else None for v in values]


def _moved(value: Value, dim: int | None, ndim: int | None = None) -> Value:
    return replace(value, batch=replace(value.batch, dim=dim, ndim=ndim), opaque=False)


def _view(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """view, reshape: the rows stay first, or become part of a flattened dimension."""
    value = operands[0][1]
    sizes: list[Value] = []
    for _, held in operands[1:]:
        sizes.extend(held.items if held.items is not None else (held,))
    if not value.is_sample:
        rows = [i for i, v in enumerate(sizes) if v.dep is Dep.ROWS]
        return tensor(Batch(Dep.SAMPLE, dim=rows[0]), value, *sizes) if rows else value
    for index, size in enumerate(sizes):
        if size.dep is Dep.ROWS:
            return _moved(value, index, len(sizes))
        if size.shape_dim is not None:
            return _moved(value, value.batch.dim)
    if value.batch.dim == 0:
        # Leading ones are new dimensions: `target.view(1, -1)` has its rows second.
        ones = next((i for i, v in enumerate(sizes) if v.const != 1), 0)
        return _moved(value, ones, len(sizes) or None)
    first = sizes[0].const if sizes else None
    return _moved(value, None if first == -1 or value.batch.dim is None else value.batch.dim, len(sizes) or None)


def _permute(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    value, order = operands[0][1], _ints(operands, keywords, "dims")
    dim = value.batch.dim
    if dim is None or None in order or dim not in order:
        return _moved(value, dim if not order else None)
    return _moved(value, order.index(dim), len(order))


def _transpose(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    value, pair = operands[0][1], _ints(operands, keywords, "dim0", "dim1")
    if len(pair) != 2:
        pair = [0, 1]
    dim, ndim = value.batch.dim, value.batch.ndim
    resolved = [p + ndim if p is not None and p < 0 and ndim is not None else p for p in pair]
    if dim is None or None in resolved:
        return _moved(value, None)
    if dim in resolved:
        other = resolved[1] if resolved[0] == dim else resolved[0]
        return _moved(value, other if other is not None and other >= 0 else None, ndim)
    return value


def _unsqueeze(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    value, where = operands[0][1], _ints(operands, keywords, "dim")
    dim, at = value.batch.dim, where[0] if where else None
    ndim = None if value.batch.ndim is None else value.batch.ndim + 1
    if dim is None or at is None:
        return _moved(value, dim, ndim)
    return _moved(value, dim + 1 if 0 <= at <= dim else dim, ndim)


def _squeeze(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """squeeze() without a dim drops the batch dimension of a slice of one row."""
    value, where = operands[0][1], _ints(operands, keywords, "dim")
    dim = value.batch.dim
    if not where:
        if value.is_sample and value.batch.ndim != 1:
            ip.sites.report("DST108", node)
        return _moved(value, dim)
    at = where[0]
    ndim = None if value.batch.ndim is None else value.batch.ndim - 1
    if dim is not None and at is not None and 0 <= at < dim:
        return _moved(value, dim - 1, ndim)
    return _moved(value, dim, ndim)


def _flatten(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    value, where = operands[0][1], _ints(operands, keywords, "start_dim", "end_dim")
    dim, start = value.batch.dim, (where[0] if where else 0)
    if dim is None or start is None:
        return _moved(value, None)
    if start > dim or dim == 0:
        return _moved(value, dim, 1 if not where else None)
    return _moved(value, None)


def _members(ip: Interpreter, value: Value, frame: Frame) -> list[Value]:
    if value.items is not None:
        return list(value.items)
    return [loops.element(ip, value, frame)]


def _cat(ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame) -> Value:
    """cat: along another dimension the rows stay; along the batch's, slices become two slices in a row."""
    from . import sinks

    container, where = operands[0], _ints(operands, keywords, "dim", "axis")
    members = _members(ip, container[1], frame)
    along = where[0] if where else 0
    samples = [v for v in members if v.is_sample]
    if not samples:
        return tensor(join_all(members).batch, *members)
    nodes = container[0].elts if isinstance(container[0], (ast.Tuple, ast.List)) else []
    dims = {v.batch.dim for v in samples}
    dim = dims.pop() if len(dims) == 1 else None
    if along == dim and len(samples) < len(members) and not frame.forward:
        for item, value in zip(nodes, members):
            if value.is_sample:
                sinks.gather(ip, item, value, frame)
        return tensor(Batch(Dep.GLOBAL, data=True))
    if along != dim and nodes:
        for value in members:
            if value.dep is Dep.GLOBAL and value.origin is not None:
                operators.split(ip, value.origin)
    reason = "cat" if along == dim else ""
    return tensor(Batch(Dep.SAMPLE, dim=dim, ndim=samples[0].batch.ndim, reason=reason), *samples)


def _stack(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    members, where = _members(ip, operands[0][1], frame), _ints(operands, keywords, "dim")
    value = join_all(members)
    if not value.is_sample:
        return tensor(value.batch, *members)
    at, dim = (where[0] if where else 0), value.batch.dim
    new = None if dim is None or at is None else dim + 1 if 0 <= at <= dim else dim
    return tensor(Batch(Dep.SAMPLE, dim=new), *members)


def _cut(ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame) -> Value:
    """chunk, split: parts of every sample, or parts of the batch."""
    value = operands[0][1]
    dims = _ints(operands[1:], keywords, "dim")
    dim = dims[0] if dims else 0
    if value.is_sample and value.batch.dim == dim and value.batch.reason != "cat":
        return operators.coupled(ip, operands[:1], node, frame)
    part = replace(value, batch=replace(value.batch, reason=""), items=None, opaque=False)
    return Value(element=part, sources=value.sources)


def _unbind(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    value, where = operands[0][1], _ints(operands, keywords, "dim")
    at, dim = (where[0] if where else 0), value.batch.dim
    if value.is_sample and at == dim:
        return operators.coupled(ip, operands[:1], node, frame)
    new = dim - 1 if dim is not None and at is not None and 0 <= at < dim else dim
    return Value(element=_moved(value, new), sources=value.sources)


def _grow(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """expand, repeat: a row count among the sizes makes a replicated tensor per-sample."""
    value = operands[0][1]
    if value.is_sample:
        return value
    sizes: list[Value] = []
    for _, held in operands[1:]:
        sizes.extend(held.items if held.items is not None else (held,))
    for index, size in enumerate(sizes):
        if size.dep is Dep.ROWS:
            return tensor(Batch(Dep.SAMPLE, dim=index), value, *sizes)
        if size.shape_dim is not None and size.shape_dim >= 0:
            return tensor(Batch(Dep.SAMPLE, dim=size.shape_dim), value, *sizes)
    return tensor(Batch(Dep.SAMPLE, dim=0), value, *[v for _, v in operands])


def _like_other(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """view_as, expand_as, reshape_as: the shape of the other."""
    samples = [v for _, v in reversed(operands) if v.is_sample]
    return tensor(samples[0].batch, *[v for _, v in operands]) if samples else operands[0][1]


def _pad_sequence(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    first = keywords.get("batch_first")
    dim = 0 if first is not None and first[1].const is True else 1
    return tensor(Batch(Dep.SAMPLE, dim=dim), *[v for _, v in operands])


_HANDLERS: dict[str, Shaper] = {
    "view": _view,
    "reshape": _view,
    "permute": _permute,
    "transpose": _transpose,
    "swapaxes": _transpose,
    "t": _transpose,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "flatten": _flatten,
    "ravel": _flatten,
    "cat": _cat,
    "concat": _cat,
    "concatenate": _cat,
    "hstack": lambda ip, o, k, n, f: _cat(ip, o, {**k}, n, f),
    "stack": _stack,
    "chunk": _cut,
    "split": _cut,
    "tensor_split": _cut,
    "unbind": _unbind,
    "expand": _grow,
    "repeat": _grow,
    "tile": _grow,
    "view_as": _like_other,
    "expand_as": _like_other,
    "reshape_as": _like_other,
    "pad_sequence": _pad_sequence,
}
