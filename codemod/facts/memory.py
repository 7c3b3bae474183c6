"""Tensors that a module keeps from one forward to the next: what a slice writes into them differs by rank."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .local import is_local
from .values import EMPTY, Role, Value

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter


def note(ip: Interpreter, target: ast.expr, value: Value, frame: Frame) -> None:
    """Report a write into a tensor of a module, inside a forward, of what depends on this rank's slice.

    Args:
        target: what is written into: `self.queue`, `self.queue[…]`, `self.mean.data`.
        value: what is written.
    """
    if not frame.forward or ip.sites.quiet or not is_local(value):
        return
    held = _attribute_of_module(ip, target)
    if held is not None:
        ip.sites.report("DST119", target)


def note_assigned(ip: Interpreter, target: ast.Attribute, value: Value, frame: Frame) -> None:
    """Report `self.mean = 0.9 * self.mean + 0.1 * x.mean(0)`: what is kept is made of itself and of a slice."""
    if not frame.forward or ip.sites.quiet or not is_local(value):
        return
    statement, text = frame.statement, ast.unparse(target)
    assigned = statement.value if isinstance(statement, (ast.Assign, ast.AugAssign)) else None
    reads = isinstance(statement, ast.AugAssign) or (
        assigned is not None
        and any(isinstance(part, ast.Attribute) and ast.unparse(part) == text for part in ast.walk(assigned))
    )
    base = ip.current.get(target.value, EMPTY)
    buffer = any((cell, target.attr) in ip.made.buffers for cell in base.objs)
    if (buffer or (reads and not _is_per_row(value))) and _is_module(ip, base):
        ip.sites.report("DST119", target)


def _is_per_row(value: Value) -> bool:
    """Whether what is kept has a row for each sample, as the state of a recurrent layer has: it stays with its rows."""
    if value.items:
        return all(_is_per_row(item) for item in value.items)
    batch = value.batch
    return value.is_sample and batch.dim is not None and not batch.ragged and not batch.reason and not value.objs


def _attribute_of_module(ip: Interpreter, node: ast.expr) -> ast.Attribute | None:
    """The attribute of a module in an expression that names a tensor which it keeps."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        inner = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Attribute) and _is_module(ip, ip.current.get(inner, EMPTY)):
            kept = ip.current.get(node, EMPTY)
            return None if kept.objs and not kept.is_param else node
        node = inner
    return None


def _is_module(ip: Interpreter, value: Value) -> bool:
    return any(Role.MODEL in ip.heap[cell].roles for cell in value.objs)
