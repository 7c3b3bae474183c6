"""Parts of data that a loop goes over (`for xb, yb in zip(X.split(n), Y.split(n))`): each of them is a batch.

A part is cut to this rank's rows where the loop gets it, so that it is the batch of that iteration.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .replacing import replace
from .values import NOTHING, Dep, Value, union

if TYPE_CHECKING:
    from .interpreter import Frame

Operand = tuple[ast.expr, Value]

SHAPED = "shaped"  # reason of a batch made by hand whose samples may not be its rows any more
CUTS = frozenset({"split", "chunk", "tensor_split", "array_split", "vsplit"})


def cut(name: str, operands: list[Operand], keywords: dict[str, Operand]) -> Value | None:
    """Value of a function that cuts what is the same on every rank into parts along its first dimension.

    Text has a method `split` too; `None` for that, for parts along another dimension, and for parts of parameters.
    """
    if name not in CUTS or not operands or operands[0][1].params or operands[0][1].objs:
        return None
    given = [value for _, value in (*operands[1:], *keywords.values())]
    along = [value.const for _, value in operands[2:]]
    along += [keywords[key][1].const for key in ("dim", "axis") if key in keywords]
    if not given or any(isinstance(value.const, str) for value in given) or any(dim != 0 for dim in along):
        return None
    batch = replace(operands[0][1].batch, exact=False)
    return Value(element=Value(batch=batch, piece=True, weak=True), params=union(v.params for v in given))


def stored(value: Value) -> Value:
    """What a list keeps of batches that were picked one after another: those that go over it get them later."""
    if value.items is not None:
        return replace(value, items=tuple(stored(item) for item in value.items))
    if value.origin is None or value.dep is not Dep.GLOBAL or value.rows or value.objs or value.params:
        return value
    return replace(value, origin=None, piece=True)


def is_batch(value: Value) -> bool:
    """Whether a tensor is a batch that is made by hand, with the samples first."""
    tensor = value.dep is Dep.GLOBAL and not (value.batch.whole or value.params or value.objs)
    return tensor and value.origin is not None


def origin_of(values: list[Value], node: ast.expr) -> ast.expr | None:
    """What picked the batch that is computed from these values: `node`, unless the dimension to split is gone there."""
    picked = [value for value in values if value.origin is not None]
    gone = next((value.origin for value in picked if value.batch.reason == SHAPED), None)
    return gone or (node if picked else None)


def reason_of(values: list[Value]) -> str:
    """`SHAPED` if the dimension to split is gone in one of these values."""
    return SHAPED if any(value.batch.reason == SHAPED and value.dep is Dep.GLOBAL for value in values) else ""


def has(value: Value) -> bool:
    """Whether a value is a part of data, or a tuple of such."""
    return value.piece or any(has(item) for item in value.items or ())


def is_made(node: ast.expr) -> bool:
    """Whether an expression makes parts of data, rather than getting one of those that were made."""
    if isinstance(node, ast.Tuple):
        return any(is_made(item) for item in node.elts)
    parts = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
    return isinstance(node, ast.Subscript) and isinstance((*parts, node.slice)[0], ast.Slice)


def picked(value: Value, node: ast.expr, frame: Frame) -> Value:
    """A part that a loop got: from here on it is a batch that `node` picked."""
    if value.items is not None:
        return replace(value, items=tuple(picked(item, node, frame) for item in value.items))
    if not value.piece:
        return value
    return replace(value, piece=False, origin=node if frame.loops else None, const=NOTHING)


__all__ = ["CUTS", "SHAPED", "cut", "has", "is_batch", "is_made", "origin_of", "picked", "reason_of", "stored"]
