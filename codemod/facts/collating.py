"""What a collate function of the program makes of the samples of a batch: where the samples lie in what it returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import dims, loops, order
from .joins import join_all
from .replacing import replace
from .values import EMPTY, GLOBAL, Batch, Dep, Value, whole

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]
_ARRAYS = {"tensor", "as_tensor", "from_numpy", "FloatTensor", "LongTensor", "IntTensor", "BoolTensor", "Tensor"}
_JOINS = {"stack", "cat", "concat", "concatenate", "vstack", "row_stack"}
JOINING = _ARRAYS | _JOINS | {"pad_sequence"}


def batch(ip: Interpreter, function: Value, sample: Value, frame: Frame) -> Value:
    """Value of a batch of these samples: every tensor with the dimension along which the samples lie.

    Args:
        function: the collate function.
        sample: a sample of the dataset.
    """
    from . import calls

    argument = Value(batch=GLOBAL, element=sample, rows=True)
    with ip.sites.hushed():
        return join_all(
            calls.enter(ip, ref, {ref.shift: argument}, ip.closure(ref.node), None, frame, True)
            for ref in order.functions(ip, order.callables(ip, function))
        )


def joined(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.expr
) -> Value | None:
    """Value of a function that makes one tensor of a list with an entry for each sample, `None` if it is none.

    In a collate function it has a row for each sample; elsewhere it is a whole batch that is made by hand.
    """
    if not operands or not operands[0][1].rows or operands[0][1].is_sample:
        return None
    if name == "default_collate":
        return filled(ip, operands[0][1], node)
    if name not in JOINING:
        return None
    dim = joined_dim(name, operands, keywords)
    if ip.sites.quiet:
        return Value(batch=Batch(Dep.SAMPLE, dim=dim))
    if operands[0][1].origin is not None and dim == 0:
        return Value(batch=GLOBAL, origin=node, weak=operands[0][1].weak)
    return Value(batch=whole(dim), origin=node)


def joined_dim(name: str, operands: list[Operand], keywords: dict[str, Operand]) -> int | None:
    """Where a function puts the entries of a list that it makes a tensor of; `None` if that can't be told."""
    if name == "pad_sequence":
        first = keywords.get("batch_first") or (operands[1] if len(operands) > 1 else None)
        return 0 if first is not None and first[1].const is True else 1
    along = dims.of_call(operands, keywords, 1) if name in _JOINS else None
    return along if isinstance(along, int) and along >= 0 else 0 if along is None else None


def filled(ip: Interpreter, samples: Value, node: ast.expr) -> Value:
    """What `default_collate` makes of the samples of a batch: every tensor with the samples first."""
    value = loops.fill(ip, loops.leafless(ip, samples.element or EMPTY), frozenset(), True)
    return value if ip.sites.quiet else _made(value, node)


def _made(value: Value, node: ast.expr) -> Value:
    if value.items is not None:
        return Value(items=tuple(_made(item, node) for item in value.items))
    return Value(batch=whole(0), origin=node) if value.is_sample else value


def transposed(value: Value) -> Value | None:
    """`zip(*samples)`: a list with an entry for each sample, for each member of a sample."""
    element = value.element
    if value.rows and (element is None or element.items is None):
        return Value(element=replace(value, element=EMPTY, items=None, objs=frozenset(), batch=GLOBAL))
    if element is None or element.items is None:
        return None
    kept = Value(batch=GLOBAL, rows=value.rows, origin=value.origin, weak=value.weak)
    return Value(items=tuple(replace(kept, element=item) for item in element.items))


def listed(value: Value, element: Value) -> Value:
    """A list made of another by a comprehension or a loop: with an entry for each sample, if that has one."""
    return replace(value, element=element, rows=True)


def picked(ip: Interpreter, value: Value, frame: Frame) -> bool:
    """Whether iterating goes over all samples of a batch: of a list of them, of what a loop picks, of a whole batch."""
    if value.is_sample or value.params or (frame.forward and not ip.sites.quiet):
        return False
    everything = value.batch.whole and not value.batch.exact and value.batch.dim == 0 and not value.batch.ragged
    return value.rows or everything or (value.dep is Dep.GLOBAL and value.origin is not None)


def in_loop_over_rows(ip: Interpreter, made: tuple[ast.AST, ...], frame: Frame) -> bool:
    """Whether the innermost running loop goes over the samples of a batch, and a list was made just before it."""
    loop = frame.loops[-1] if frame.loops else None
    return (
        isinstance(loop, ast.For) and made == frame.loops[:-1] and picked(ip, ip.current.get(loop.iter, EMPTY), frame)
    )


def of_cells(ip: Interpreter, value: Value) -> Value:
    """A list of the heap, as what it holds: one entry for each sample, if a loop over them filled it."""
    cells = [ip.heap[cell] for cell in value.objs]
    if value.rows or not any(cell.rows for cell in cells):
        return value
    return replace(value, element=join_all(cell.element for cell in cells), rows=True)
