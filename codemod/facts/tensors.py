"""What the functions and methods of torch do to the batch dimension."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from . import creation, losses, operators, shapes, sinks
from .torchnames import ALONG_DIM, HOST_COPIES, IDENTITY, METADATA, PARAM_METADATA, REDUCTIONS, WHOLE
from .values import EMPTY, GLOBAL, HOST, ROWS, Batch, Dep, Value, tensor, union

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]


def apply(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """Value of a torch function or tensor method.

    Args:
        name: last component of its name.
        operands: positional operands, the receiver first.
        keywords: keyword operands by name.
    """
    everything = [*operands, *keywords.values()]
    if not frame.forward and not name.endswith("_"):
        for operand, value in everything:
            counted = name in ("numel", "nelement") and bool(value.params & ip.owned_now)
            if value.is_param and (name not in PARAM_METADATA or counted):
                operators.full(ip, operand, value)
    if creation.is_creation(name):
        return creation.create(ip, name, operands, keywords, node, frame)
    if not any(_touches(v) for _, v in everything):
        return _replicated(name, operands, keywords, node, frame)
    if name in losses.DIVISORS:
        return loss(ip, losses.Loss(name, *_function_loss(ip, name, node)), everything, node, frame)
    if not operands:
        operands = list(keywords.values())
    first = operands[0][1]
    if name in METADATA and not (name == "type" and len(operands) > 1):
        return _metadata(name, operands, keywords)
    if name in HOST_COPIES:
        return _host_copy(ip, operands[0], frame) if first.is_sample else first
    if name in IDENTITY or name == "type":
        return replace(first, const=EMPTY.const)
    if first.dep is Dep.PENDING:
        return first if name in ("abs", "clone", "contiguous") else _nonlinear(first)
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(ip, name, operands, keywords, node, frame)
    shaped = shapes.reshape(ip, name, operands, keywords, node, frame)
    if shaped is not None:
        return shaped
    for operand, value in everything:
        if value.dep is Dep.ROWS and not frame.forward:
            sinks.count(ip, operand, frame)
    return operators.elementwise(ip, [o for o in everything if o[1].dep is not Dep.ROWS], node, frame)


def _touches(value: Value) -> bool:
    """Whether a value depends on this rank's slice."""
    from . import expressions

    local = value.dep > Dep.GLOBAL or (value.shape_dim is not None and value.shape_dim >= 0)
    return local or expressions.has_sample(value) or any(v.dep is Dep.ROWS for v in value.items or ())


def _nonlinear(value: Value) -> Value:
    reason = "a value reduced over the slice is used in a nonlinear way in the forward"
    return tensor(Batch(Dep.UNKNOWN, reason=reason), value)


def _replicated(
    name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """Every operand is the same on all ranks, and so is the result."""
    values = [v for _, v in [*operands, *keywords.values()]]
    data = any(v.batch.data for v in values)
    keeps_rows = name not in REDUCTIONS and name not in METADATA
    origin = node if keeps_rows and any(v.origin is not None for v in values) else None
    if name == "stack" and frame.loops and _stacks_slices(node):
        origin = node
    first = operands[0][1] if operands else EMPTY
    if name in IDENTITY and first.is_param:
        return first
    if name == "size":
        return Value(batch=GLOBAL, shape_dim=-1 if len(operands) + len(keywords) == 1 else None, measured=True)
    flat = name in ("flatten", "ravel") and len(operands) == 1
    flat = flat or (name in ("view", "reshape") and len(operands) == 2 and operands[1][1].const == -1)
    return Value(
        batch=Batch(Dep.GLOBAL, ndim=1 if flat else None, data=data),
        params=union(v.params for v in values),
        origin=origin,
        weak=any(v.weak for v in values),
        size0=first.size0 if name in IDENTITY else None,
        made=first.made if name in IDENTITY else None,
    )


def _stacks_slices(node: ast.Call) -> bool:
    """`torch.stack([data[i:i + n] for i in picks])`: rows picked from data."""
    if not node.args or not isinstance(node.args[0], (ast.ListComp, ast.GeneratorExp)):
        return False
    return any(isinstance(part, ast.Subscript) for part in ast.walk(node.args[0].elt))


def _function_loss(ip: Interpreter, name: str, node: ast.Call) -> tuple[str | None, str | None, str]:
    reduction, reason = losses.reduction_of(ip, node)
    by = None
    if reduction == "mean" and losses.DIVISORS[name] == "targets":
        by, problem = losses.function_divisor(ip, name, node)
        if problem:
            return None, None, problem
    return reduction, by, reason


def loss(ip: Interpreter, item: losses.Loss, operands: list[Operand], node: ast.Call, frame: Frame) -> Value:
    """Value of a loss over slices."""
    samples = [(n, v) for n, v in operands if v.is_sample]
    others = [v for _, v in operands if not v.is_sample and v.dep > Dep.ROWS]
    if others:
        return tensor(others[0].batch, *[v for _, v in operands])
    for operand, value in operands[:3]:
        if (value.dep is Dep.GLOBAL and value.origin is not None) or operators._is_batch_shaped(
            ip, value, [v for _, v in samples]
        ):
            operators.split(ip, value.origin or operand)
    value = tensor(Batch(Dep.SAMPLE, dim=0), *[v for _, v in operands])
    if item.reduction is None:
        ip.sites.report("DST110", node, f"The divisor of this loss can't be told: {item.reason}.")
        return tensor(Batch(Dep.UNKNOWN, reason=item.reason))
    for _, sample in samples:
        creation.settle(ip, sample)
    if item.reduction == "none":
        return value
    return sinks.reduce_here(ip, node, value, frame, item.reduction, item.by)


def _metadata(name: str, operands: list[Operand], keywords: dict[str, Operand]) -> Value:
    """Sizes and counts of a tensor with a batch dimension."""
    value = operands[0][1]
    if not value.is_sample:
        return HOST
    if name in ("numel", "nelement"):
        return Value(batch=ROWS, sources=value.sources)
    if name == "size":
        index = operands[1][1] if len(operands) > 1 else keywords.get("dim", (None, None))[1]
        if index is None:
            return Value(
                batch=GLOBAL, shape_dim=-1 if value.batch.dim is None else value.batch.dim, sources=value.sources
            )
        return Value(batch=ROWS, sources=value.sources) if index.const == value.batch.dim else HOST
    return HOST


def _host_copy(ip: Interpreter, operand: Operand, frame: Frame) -> Value:
    """`.numpy()`, `.tolist()`, `.item()`: per-sample values leave torch, so they are gathered before."""
    node, value = operand
    return value if frame.forward else sinks.gather(ip, node, value, frame)


def dims_of(name: str, operands: list[Operand], keywords: dict[str, Operand], position: int) -> object:
    """The constant `dim` of a call: an int, a tuple of ints, `None` if not given, "?" if it can't be told."""
    given = keywords.get("dim") or keywords.get("axis")
    if given is None and len(operands) > position:
        given = operands[position]
    if given is None:
        return None
    value = given[1]
    if value.items is not None:
        members = [v.const for v in value.items]
        return tuple(members) if all(isinstance(m, int) for m in members) else "?"
    return value.const if isinstance(value.const, int) and not isinstance(value.const, bool) else "?"


def touches_batch(value: Value, dims: object) -> bool:
    """Whether reducing these dims of a per-sample tensor takes its batch dimension away."""
    if dims is None:
        return True
    every = dims if isinstance(dims, tuple) else (dims,)
    if value.batch.dim is None:
        # Flattening puts the rows into the first dimension in all but exotic code.
        return value.batch.ndim == 1 or 0 in every
    ndim = value.batch.ndim
    return any(
        d == value.batch.dim or (isinstance(d, int) and d < 0 and ndim is not None and d + ndim == value.batch.dim)
        for d in every
    )


def _reduction(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """mean, sum, max, …: over the batch dimension, or within each sample."""
    operand, value = operands[0]
    kind, position, pairs = REDUCTIONS[name]
    if not value.is_sample:
        return operators.elementwise(ip, operands, node, frame)
    if (
        name in ("max", "min")
        and len(operands) > 1
        and operands[1][1].dep >= Dep.GLOBAL
        and not isinstance(operands[1][1].const, int)
    ):
        return operators.elementwise(ip, operands, node, frame)
    dims = dims_of(name, operands, keywords, position)
    if touches_batch(value, dims):
        creation.settle(ip, value)
        if not kind or (dims is not None and kind in ("max", "min") and pairs):
            return _gathered(ip, operands, node, frame)
        by = None
        if kind == "mean" and value.batch.ragged:
            if not losses.is_pure(operand):
                ip.sites.report("DST110", node, "The mean runs over a masked selection that can't be written twice.")
                return tensor(Batch(Dep.UNKNOWN, reason="mean over a masked selection"))
            by = f"{ip.text(operand)}.numel()"
        return sinks.reduce_here(ip, node, value, frame, kind, by)
    result = value.with_batch(_without(value.batch, dims, keywords))
    if pairs and dims is not None:
        return Value(items=(result, result), sources=value.sources)
    return replace(result, opaque=False, arg=None)


def _without(batch: Batch, dims: object, keywords: dict[str, Operand]) -> Batch:
    """The batch type after dims that are not the batch's were reduced."""
    every = [d for d in (dims if isinstance(dims, tuple) else (dims,)) if isinstance(d, int)]
    keep = keywords.get("keepdim")
    if keep is not None and keep[1].const is True:
        return batch
    before = sum(1 for d in every if batch.dim is not None and 0 <= d < batch.dim)
    ndim = None if batch.ndim is None else batch.ndim - len(every)
    return replace(batch, dim=None if batch.dim is None else batch.dim - before, ndim=ndim)


def _gathered(ip: Interpreter, operands: list[Operand], node: ast.expr, frame: Frame) -> Value:
    """An operation over the whole batch that no reduction stands for: its operands are gathered."""
    return operators.coupled(ip, operands, node, frame)


def _along_dim(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """softmax, cumsum, sort, …: per sample unless they run along the batch dimension."""
    value = operands[0][1]
    position, default, pairs = ALONG_DIM[name]
    dims = dims_of(name, operands, keywords, position)
    if dims is None:
        dims = default
    if value.is_sample and dims is not None and touches_batch(value, dims):
        return _gathered(ip, operands, node, frame)
    result = operators.elementwise(ip, operands, node, frame)
    return Value(items=(result, result), sources=result.sources) if pairs else result


def _whole(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    return _gathered(ip, operands, node, frame)


def matmul(ip: Interpreter, node: ast.expr, left: Operand, right: Operand, frame: Frame) -> Value:
    """`left @ right`: per sample, over the batch (a sum), or between samples."""
    (_, a), (_, b) = left, right
    if a.is_sample and b.is_sample:
        if a.batch.ndim == b.batch.ndim == 1:
            return sinks.reduce_here(ip, node, tensor(a.batch, a, b), frame, "sum")
        if a.batch.dim == 0 and b.batch.dim == 1:
            return operators.coupled(ip, [left, right], node, frame)
        if a.batch.dim == 1 and b.batch.dim == 0:
            return sinks.reduce_here(ip, node, tensor(a.batch, a, b), frame, "sum")
    return operators.elementwise(ip, [left, right], node, frame)


def _matmul(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    if len(operands) < 2:
        return operators.elementwise(ip, operands, node, frame)
    if name == "dot":
        value = tensor(Batch(Dep.SAMPLE, dim=0, ndim=1), operands[0][1], operands[1][1])
        return sinks.reduce_here(ip, node, value, frame, "sum")
    return matmul(ip, node, operands[0], operands[1], frame)


def _einsum(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """Follow the letter of the batch dimension through an equation."""
    equation, tensors = operands[0][1].const, operands[1:]
    if not isinstance(equation, str) or "..." in equation or "->" not in equation:
        return operators.elementwise(ip, tensors, node, frame)
    inputs, output = equation.replace(" ", "").split("->")
    letters = set()
    for subscript, (_, value) in zip(inputs.split(","), tensors):
        if value.is_sample and value.batch.dim is not None and value.batch.dim < len(subscript):
            letters.add(subscript[value.batch.dim])
    if len(letters) != 1:
        return operators.coupled(ip, tensors, node, frame) if letters else tensor(SAMPLE_FLAT, *[v for _, v in tensors])
    letter = letters.pop()
    values = [v for _, v in tensors]
    if letter not in output:
        return sinks.reduce_here(ip, node, tensor(Batch(Dep.SAMPLE, dim=0), *values), frame, "sum")
    return tensor(Batch(Dep.SAMPLE, dim=output.index(letter), ndim=len(output)), *values)


SAMPLE_FLAT = Batch(Dep.SAMPLE, dim=None)

_HANDLERS: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(ALONG_DIM, _along_dim),
    **dict.fromkeys(WHOLE, _whole),
    "matmul": _matmul,
    "mm": _matmul,
    "dot": _matmul,
    "vdot": _matmul,
    "inner": _matmul,
    "einsum": _einsum,
}
