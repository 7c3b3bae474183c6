"""What a collate function of the program makes of the samples of a batch: where the samples lie in what it returns."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from . import dims
from .values import EMPTY, GLOBAL, Batch, Dep, Value, join_all

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]
_ARRAYS = {"tensor", "as_tensor", "from_numpy", "FloatTensor", "LongTensor", "IntTensor", "BoolTensor", "Tensor"}
_JOINS = {"stack", "cat", "concat", "concatenate", "vstack", "row_stack"}


def batch(ip: Interpreter, function: Value, sample: Value, frame: Frame) -> Value:
    """Value of a batch of these samples: every tensor with the dimension along which the samples lie.

    Args:
        function: the collate function.
        sample: a sample of the dataset.
    """
    from . import calls

    argument = Value(batch=GLOBAL, element=sample, rows=True)
    quiet, ip.sites.quiet = ip.sites.quiet, True
    results = [
        calls.enter(ip, ref, {int(ref.bound is not None): argument}, ip.closure(ref.node), None, frame, True)
        for ref in function.defs
    ]
    ip.sites.quiet = quiet
    return join_all(results)


def joined(name: str, operands: list[Operand], keywords: dict[str, Operand]) -> Value | None:
    """Value of a function that makes one tensor of a list with an entry for each sample, `None` if it is none."""
    if not operands or not operands[0][1].rows:
        return None
    element = operands[0][1].element or EMPTY
    if name in _ARRAYS:
        return Value(batch=Batch(Dep.SAMPLE, dim=0))
    if name == "pad_sequence":
        first = keywords.get("batch_first") or (operands[1] if len(operands) > 1 else None)
        return Value(batch=Batch(Dep.SAMPLE, dim=0 if first is not None and first[1].const is True else 1))
    if name in _JOINS:
        along = dims.of_call(operands, keywords, 1)
        dim = along if isinstance(along, int) and along >= 0 else 0 if along is None else None
        return Value(batch=Batch(Dep.SAMPLE, dim=dim))
    if name == "default_collate":
        return element
    return None


def transposed(value: Value) -> Value | None:
    """`zip(*samples)`: a list with an entry for each sample, for each member of a sample."""
    element = value.element
    if element is None or element.items is None:
        return None
    kept = Value(batch=GLOBAL, rows=value.rows, origin=value.origin, weak=value.weak)
    return Value(items=tuple(replace(kept, element=item) for item in element.items))


def listed(value: Value, element: Value) -> Value:
    """A list made of another by a comprehension or a loop: with an entry for each sample, if that has one."""
    return replace(value, element=element, rows=True)


def in_loop_over_rows(ip: Interpreter, frame: Frame) -> bool:
    """Whether the innermost running loop goes over the samples of a batch."""
    loop = frame.loops[-1] if frame.loops else None
    return isinstance(loop, ast.For) and ip.sites.quiet and ip.current.get(loop.iter, EMPTY).rows


def of_cells(ip: Interpreter, value: Value) -> Value:
    """A list of the heap, as what it holds: one entry for each sample, if a loop over them filled it."""
    cells = [ip.heap[cell] for cell in value.objs]
    if value.rows or not any(cell.rows for cell in cells):
        return value
    return replace(value, element=join_all(cell.element for cell in cells), rows=True)
