"""Decisions inside a forward: taken on the rows of one process's slice, while the others may decide otherwise.

    if x.mean() > 0:            # refused: slices have other means than the batch
    if mask.any():              # a warning: right if it only spares work on rows of which there are none
        x[mask] = self.head(x[mask])

Nothing is reduced inside a forward, so such a condition stays as it is. Where a branch only raises, prints or checks,
it doesn't matter.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import row_loops
from .places import last_name
from .values import EMPTY, Batch, Dep, Role, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .interpreter import Frame, Interpreter

SLICE = "a decision that is taken inside a forward on the rows of one process's slice"
GUARDS = ("any", "all")
COUNTS = ("sum", "count_nonzero", "numel", "size", "__len__")
PRINTS = ("builtins.print", "warnings.warn", "logging.")
IDENTITY = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
MESSAGE = (
    "This decision is taken inside a forward, on the rows of one process's slice: another one may decide otherwise"
)
HINT = "take it outside of the forward, on the whole batch: flag = runtime.any(…); out = model(x, flag)"
LENGTH = "This length is that of one process's rows; taken that what lies beyond it is masked, or counts nowhere."
LENGTH_HINT = (
    "measure it outside of the forward, on the whole batch, and pass it in: out = model(x, int(lengths.max()))"
)
SPARED = "Work is skipped where a process's slice has no such rows; taken to change nothing for the other rows."


def taken(ip: Interpreter, test: ast.expr, frame: Frame) -> None:
    """Report a condition inside a forward that depends on the slice and decides over what is computed."""
    if not frame.forward or ip.sites.quiet or not is_local(ip, test, frame):
        return
    parts = list(decided(ip, test))
    if all(is_harmless(ip, part) for part in parts):
        return
    inner = [node for part in parts for node in ast.walk(part)]
    if guards_rows(ip, test) and not any(is_norm(ip, node) for node in inner):
        ip.sites.report("DST126", test, SPARED, level="warning")
    else:
        ip.sites.report("DST126", test, f"{MESSAGE}.", HINT)


def measured(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> None:
    """Warn of a length inside a forward that was reduced over a slice: the longest of its rows, for instance."""
    if frame.forward and (is_reduced(value) or is_one_row(ip, value, frame)):
        ip.sites.report("DST126", node, LENGTH, LENGTH_HINT, level="warning")


def picked(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> None:
    """Report an index inside a forward that was reduced over a slice: another process may pick another one."""
    if frame.forward and is_reduced(value):
        ip.sites.report("DST126", node, f"{MESSAGE}.", HINT)


def is_local(ip: Interpreter, test: ast.expr, frame: Frame) -> bool:
    """Whether a condition, or what it compares, was reduced over the rows of a slice, counts them, or is one's."""
    if isinstance(test, ast.Compare):
        if any(isinstance(op, IDENTITY) for op in test.ops):
            return False
        values = [ip.current.get(part, EMPTY) for part in (test.left, *test.comparators)]
    else:
        values = [ip.current.get(test, EMPTY)]
    return any(is_of_slice(value) or is_one_row(ip, value, frame) for value in values)


def is_one_row(ip: Interpreter, value: Value, frame: Frame) -> bool:
    """Whether a value is that of some row, where no loop goes over them: the first of the slice, or the largest."""
    return row_loops.is_of_row(value) and not row_loops.among_rows(ip, frame)


def is_of_slice(value: Value) -> bool:
    """Whether a number belongs to one process's rows."""
    return is_reduced(value) or value.dep is Dep.ROWS or value.shape_dim == 0


def is_reduced(value: Value) -> bool:
    """Whether a value was reduced over the rows of a slice, or computed or decided on such."""
    return value.dep in (Dep.PENDING, Dep.UNKNOWN)


def compared(operands: Iterable[Value]) -> Value | None:
    """The value of a comparison inside a forward whose operands are reduced over a slice; `None` for any other."""
    found = any(map(is_reduced, operands))
    return Value(batch=Batch(Dep.UNKNOWN, reason=SLICE)) if found else None


def decided(ip: Interpreter, test: ast.expr) -> list[ast.AST]:
    """What a condition decides over."""
    node: ast.AST | None = test
    while isinstance(node, (ast.BoolOp, ast.UnaryOp)) or node is test:
        node = ip.parents.get(node)
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    return [*node.body, *node.orelse] if isinstance(node, (ast.If, ast.While)) else []


def is_harmless(ip: Interpreter, part: ast.AST) -> bool:
    """Whether a statement raises, prints or checks, and computes nothing."""
    if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call):
        return (ip.names.qualified(part.value.func) or "").startswith(PRINTS)
    return isinstance(part, (ast.Raise, ast.Pass, ast.Assert)) or (
        isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
    )


def guards_rows(ip: Interpreter, test: ast.expr) -> bool:
    """Whether a condition asks if there are such rows at all: `mask.any()`, `mask.sum() > 0`, `len(rows)`."""
    if isinstance(test, ast.Call):
        name = last_name(test.func)
        return name in GUARDS or (name in (*COUNTS, "len") and name != "size")
    if not isinstance(test, ast.Compare) or len(test.comparators) != 1:
        return False
    sides = [test.left, test.comparators[0]]
    none = [side for side in sides if isinstance(side, ast.Constant) and side.value in (0, 1)]
    counts = [side for side in sides if side not in none and is_count(ip, side)]
    return len(none) == len(counts) == 1


def is_count(ip: Interpreter, node: ast.expr) -> bool:
    """Whether an expression counts the rows that a mask selects."""
    while isinstance(node, ast.Call) and last_name(node.func) in ("item", "int"):
        node = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0]
    if not isinstance(node, ast.Call):
        return False
    held = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if node.args else node
    ragged, name = ip.current.get(held, EMPTY).batch.ragged, last_name(node.func)
    return name in ("sum", "count_nonzero", "any") or (ragged and name in (*COUNTS, "len"))


def is_norm(ip: Interpreter, node: ast.AST) -> bool:
    """Whether a node runs a BatchNorm, in which the processes meet."""
    value = ip.current.get(node.func, EMPTY) if isinstance(node, ast.Call) else EMPTY
    refs = [ip.heap[cell].ref or "" for cell in value.objs if value.has(Role.MODEL)]
    return any("BatchNorm" in ref for ref in refs)
