"""Random numbers of a forward that belong to no sample: one for the whole batch, so the same on all ranks.

A layer that is skipped (`if torch.rand(1) < self.p`) or a word that is fed back by chance decides what runs next. A
process that decided alone would run other layers than the others, and wait in those that communicate.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import row_loops
from .values import NOTHING, Dep, Value

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter


Operand = tuple[ast.expr, Value]

SHARED = ("random.", "numpy.random.")
"""Streams that all ranks share inside forwards too."""
APART = "Each process draws as many numbers here as its slice has rows, from a stream that all of them must share."
APART_HINT = "draw from torch, whose stream is each process's own inside a forward: torch.rand(len(x))"

# What says where and as what numbers are kept, not how many or which.
_STORAGE = {"device", "dtype", "layout", "pin_memory", "requires_grad", "memory_format"}


def note(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], value: Value, node: ast.Call, frame: Frame
) -> None:
    """A forward draws: from the stream that all ranks share, if as many numbers as on every rank."""
    inside = any(getattr(current.node, "name", "") in ("forward", "__call__") for current in frame.chain())
    if not inside or "generator" in keywords:
        return  # methods that are called from outside, as `generate`, and generators of their own draw alike anyway
    sizes = [*operands, *(held for name, held in keywords.items() if name not in _STORAGE)]
    if value.dep is Dep.GLOBAL and all(_is_equal(operand, given) for operand, given in sizes):
        ip.sites.keep(ip.sites.alike, node, node)
    else:
        ip.sites.apart.add(node)


def _is_equal(node: ast.expr, value: Value) -> bool:
    """Whether a size (or what numbers are drawn from) is the same on all ranks for sure: nothing read off the batch."""
    if value.const is not NOTHING or (isinstance(node, (ast.Tuple, ast.List)) and not node.elts):
        return True
    if value.items is not None and isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) == len(value.items):
        return all(_is_equal(part, item) for part, item in zip(node.elts, value.items))
    plain = isinstance(node, (ast.Name, ast.Attribute, ast.Constant, ast.Call, ast.BinOp, ast.UnaryOp, ast.Subscript))
    return plain and value.dep in (Dep.BOTTOM, Dep.GLOBAL) and not value.batch.data and not value.batch.whole


def drawn(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> None:
    """Python or NumPy draws inside a forward: for each row of a slice, its stream would be another on each rank."""
    if frame.forward and (row_loops.among_rows(ip, frame) or any(_has_rows(value) for _, value in arguments.all)):
        ip.sites.report("DST105", node, APART, APART_HINT)


def _has_rows(value: Value) -> bool:
    """Whether a size, or what numbers are drawn from, is that of a slice."""
    return value.dep is Dep.ROWS or value.is_sample or any(map(_has_rows, value.items or ()))
