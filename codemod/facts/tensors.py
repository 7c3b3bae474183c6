"""What the functions and methods of torch do to the batch dimension."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import (
    changes,
    collating,
    combining,
    creation,
    dims,
    indexing,
    losscalls,
    losses,
    memory,
    pieces,
    products,
    reducing,
    row_loops,
    shapes,
    sinks,
    views,
    wholes,
)
from .local import holds_whole, is_local
from .losstable import DIVISORS
from .replacing import replace
from .torchnames import (
    ALIASES,
    ALONG_DIM,
    HOST_COPIES,
    IDENTITY,
    MATRICES,
    METADATA,
    PAIRWISE,
    PARAM_METADATA,
    POSITIONS,
    REDUCTIONS,
    SUMMARIES,
)
from .values import COUNTED, EMPTY, EXACT_ROWS, GLOBAL, HOST, ROWS, Batch, Dep, Value, tensor, union, whole

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
    changed = bool(operands) and changes.in_place(ip, name, *operands[0], frame)
    if not frame.forward:
        combining.meet_parameters(ip, [v for _, v in everything])
    if any(v.is_param and changes.is_read(ip, v, frame) for _, v in everything):
        for operand, value in everything[1:] if changed else everything:
            counted = name in ("numel", "nelement") and bool(value.params & ip.owned_now)
            if value.is_param and (name not in PARAM_METADATA or counted):
                combining.full(ip, operand, value)
    if name.endswith("_") and not name.endswith("__") and isinstance(node.func, ast.Attribute) and operands:
        for _, value in everything[1:]:
            memory.note(ip, operands[0][0], value, frame)
    collated = collating.joined(ip, name, operands, keywords, node)
    if collated is None:
        collated = row_loops.joined(ip, name, operands, keywords, frame)
    if collated is None and name not in METADATA | HOST_COPIES and not creation.is_creation(name):
        collated = row_loops.of_row(ip, name, [v for _, v in everything], frame)
    if collated is not None:
        return collated
    if name == "masked_select" and any(v.is_sample for _, v in everything):
        values = [v for _, v in everything]
        return tensor(Batch(Dep.SAMPLE, dim=0, ndim=1, ragged=True), *values)
    if name == "where" and len(operands) == 1 and not keywords:
        name = "nonzero"
    if name == "new_tensor":
        operands, everything = operands[1:], everything[1:]
    if creation.is_creation(name):
        return creation.create(ip, name, operands, keywords, node, frame)
    if not any(is_local(v) for _, v in everything):
        if any(holds_whole(v) for _, v in everything):
            return wholes.apply(ip, name, operands, keywords, node, frame)
        return _replicated(ip, name, operands, keywords, node, frame)
    if name in DIVISORS:
        return losscalls.apply(ip, losses.of_function(ip, name, node), everything, node, frame)
    if not operands:
        operands = list(keywords.values())
    first = operands[0][1]
    if name in METADATA and not (name == "type" and len(operands) > 1):
        return _metadata(name, operands, keywords, node)
    if name in HOST_COPIES:
        if name == "item" and first.is_sample and frame.forward:
            return row_loops.single(ip, first, frame)
        return _host_copy(ip, operands[0], frame) if first.is_sample else first
    if name in IDENTITY or name == "type":
        return replace(first, const=EMPTY.const)
    if first.dep is Dep.PENDING:
        return first if name in ("abs", "clone", "contiguous") else _nonlinear(first)
    plain = _plain(name)
    handler = _HANDLERS.get(plain)
    if handler is not None:
        return handler(ip, plain, operands, keywords, node, frame)
    shaped = shapes.reshape(ip, plain, operands, keywords, node, frame)
    if shaped is not None:
        return shaped
    for operand, value in everything:
        if value.dep is Dep.ROWS and not frame.forward:
            sinks.count(ip, operand, frame)
    return combining.elementwise(ip, [o for o in everything if o[1].dep is not Dep.ROWS], node, frame)


def is_aggregate(name: str) -> bool:
    """Whether an operation makes one value of many, as `max` does."""
    return name in REDUCTIONS or name in SUMMARIES


def _plain(name: str) -> str:
    """The name of an operation without what says that it works in place, copies, or checks nothing."""
    if name in _HANDLERS:
        return name
    return name.removeprefix("unsafe_").removesuffix("_copy").removesuffix("_")


def _nonlinear(value: Value) -> Value:
    reason = "a value reduced over the slice is used in a nonlinear way in the forward"
    return tensor(Batch(Dep.UNKNOWN, reason=reason), value)


def _replicated(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """Every operand is the same on all ranks, and so is the result."""
    parts = pieces.cut(name, operands, keywords) or views.picked(name, operands, keywords, node)
    if parts is not None:
        return parts
    values = [v for _, v in [*operands, *keywords.values()]]
    data = any(v.batch.data for v in values)
    keeps_rows = name not in REDUCTIONS and name not in METADATA
    if name in REDUCTIONS and isinstance(over := dims.of_call(operands, keywords, REDUCTIONS[name][1]), (int, tuple)):
        keeps_rows = not dims.touch(Batch(Dep.SAMPLE, dim=ip.split_dim or 0), over)
    origin = pieces.origin_of(values, node) if keeps_rows else None
    if name == "stack" and frame.loops and _stacks_slices(node):
        origin = node
    first = operands[0][1] if operands else EMPTY
    if name in IDENTITY and first.is_param:
        return first if name in ALIASES else replace(first, is_param=False, arg=None)
    if name == "size":
        whole_shape = len(operands) + len(keywords) == 1
        first_size = whole_shape or any(v.const == 0 for v in values[1:])
        batch = COUNTED if first_size and pieces.is_batch(first) else GLOBAL
        return Value(batch=batch, shape_dim=-1 if whole_shape else None, measured=True)
    if name == "pad_sequence" and origin is not None:
        first_dim = keywords.get("batch_first") or (operands[1] if len(operands) > 1 else None)
        return Value(batch=whole(0 if first_dim is not None and first_dim[1].const is True else 1), origin=node)
    return Value(
        batch=Batch(Dep.GLOBAL, data=data, reason=pieces.reason_of(values)),
        params=union(v.params for v in values),
        origin=origin,
        weak=any(v.weak for v in values),
        size0=first.size0 if name in IDENTITY else None,
        made=first.made if name in IDENTITY or name.endswith("_") else None,
    )


def _stacks_slices(node: ast.Call) -> bool:
    """`torch.stack([data[i:i + n] for i in picks])`: rows picked from data."""
    if not node.args or not isinstance(node.args[0], (ast.ListComp, ast.GeneratorExp)):
        return False
    return any(isinstance(part, ast.Subscript) for part in ast.walk(node.args[0].elt))


def _metadata(name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.expr) -> Value:
    """Sizes and counts of a tensor with a batch dimension."""
    value = operands[0][1]
    if not value.is_sample:
        return HOST
    if name in ("numel", "nelement"):
        return Value(batch=ROWS, sources=value.sources, built=frozenset({node}))
    if name == "size":
        index = operands[1][1] if len(operands) > 1 else keywords.get("dim", (None, None))[1]
        if index is None:
            dim = -1 if value.batch.dim is None else value.batch.dim
            return Value(batch=GLOBAL, shape_dim=dim, sources=value.sources, built=frozenset({node}))
        rows = index.const == value.batch.dim
        return Value(batch=_rows(value), sources=value.sources, built=frozenset({node})) if rows else HOST
    return HOST


def _rows(value: Value) -> Batch:
    """The number of rows of a tensor: this rank's, unless it was masked or joined."""
    return ROWS if value.batch.ragged or value.batch.reason else EXACT_ROWS


def _host_copy(ip: Interpreter, operand: Operand, frame: Frame) -> Value:
    """`.numpy()`, `.tolist()`, `.item()`: per-sample values leave torch, so they are gathered before."""
    node, value = operand
    return value if frame.forward else sinks.gather(ip, node, value, frame)


_HANDLERS: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(REDUCTIONS, reducing.reduction),
    **dict.fromkeys(ALONG_DIM, reducing.along_dim),
    **dict.fromkeys(SUMMARIES, reducing.summary),
    **dict.fromkeys(PAIRWISE | POSITIONS, products.pairwise),
    **dict.fromkeys(MATRICES, products.of_matrices),
    **dict.fromkeys(("matmul", "mm", "dot", "vdot", "inner", "linear"), products.call),
    "einsum": products.einsum,
    **dict.fromkeys(indexing.WRITES | indexing.PUTS | indexing.READS | indexing.CUTS, indexing.call),
}
