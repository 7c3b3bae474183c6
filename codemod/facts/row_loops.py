"""Loops over the rows of one process's slice inside a forward: what they carry from row to row, or leave behind.

    longest = 0
    for n in lengths.tolist():
        longest = max(longest, n)     # a row meets the rows before it: longest is a number of the slice
        parts.append(x[i, :n].sum())  # each row by itself: one part for each row

Outside of a forward such a loop goes over the rows of the whole batch, which are gathered.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from . import collating
from .joins import join_all
from .local import is_local
from .places import inside
from .replacing import replace
from .values import EMPTY, EXACT_ROWS, Batch, Dep, Value, tensor

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

CARRIED = "what a loop inside a forward carries over the rows of one process's slice"
UNBOUND = Value(batch=Batch(Dep.UNKNOWN, reason=CARRIED))
LEAVES = (ast.Break, ast.Continue)
EACH, SOME = "each", "some"
POSITION = "position"
"""Why a SAMPLE is one: it counts the rows of the slice from 0, where the original counts those of the batch."""
Operand = tuple[ast.expr, Value]


def is_of_row(value: Value) -> bool:
    """Whether a value belongs to a single row: an element of a tensor with one for each."""
    return value.is_sample and value.batch.dim is None and value.items is None


def over_rows(ip: Interpreter, node: ast.expr) -> bool:
    """Whether an iterable, inside a forward, has one element for each row of the slice."""
    if isinstance(node, ast.Starred):
        return over_rows(ip, node.value)
    value = ip.current.get(node, EMPTY)
    if value.is_sample and value.items is None and value.element is None:
        return value.batch.dim == 0
    if isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
        return over_rows(ip, node.generators[0].iter)
    held = value.element if value.element is not None else EMPTY
    held = held if held.is_sample or held.items else next((ip.heap[cell].element for cell in value.objs), EMPTY)
    if not any(is_of_row(part) for part in held.items or (held,)):
        return False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):  # `zip`, `enumerate`, `sorted`
        return any(over_rows(ip, part) for part in node.args)
    return True


def among_rows(ip: Interpreter, frame: Frame) -> bool:
    """Whether one row is looked at now, in a loop over them."""
    return _any_over_rows(ip, frame.loops)


def _any_over_rows(ip: Interpreter, loops: tuple[ast.AST, ...]) -> bool:
    return any(isinstance(loop, ast.For | ast.comprehension) and over_rows(ip, loop.iter) for loop in loops)


def collected(ip: Interpreter, node: ast.expr, frame: Frame) -> bool:
    """Whether what is computed of this iterable as a whole, its maximum for instance, belongs to the slice."""
    return frame.forward and not ip.sites.quiet and not among_rows(ip, frame) and over_rows(ip, node)


def reduced(kind: str, value: Value) -> Value:
    """The reduction of the rows of a slice."""
    return tensor(Batch(Dep.PENDING, kind=kind), replace(value, items=None, element=None))


def of_row(ip: Interpreter, name: str, values: list[Value], frame: Frame) -> Value | None:
    """What an operation makes of a single row, in a loop over them: again something of that row; `None` if it takes
    anything else of the slice."""
    single = [value for value in values if is_of_row(value)]
    if not single or not frame.forward or ip.sites.quiet or not among_rows(ip, frame):
        return None
    others = [value for value in values if not is_of_row(value)]
    if any(is_local(value) for value in others):
        return None
    lifted = name == "unsqueeze" and any(value.const == 0 for value in others)
    return tensor(Batch(Dep.SAMPLE, dim=0 if lifted else None), *single)


def is_lifted(ip: Interpreter, base: Value, index: ast.expr, frame: Frame) -> bool:
    """Whether a single row becomes a batch of one: `row[None]`."""
    new = isinstance(index, ast.Constant) and index.value is None
    return new and frame.forward and is_of_row(base) and among_rows(ip, frame)


def kept(ip: Interpreter, cell: int, frame: Frame, whole: bool = True) -> None:
    """A list gets an entry: if a loop over the rows of a slice fills it, it has one for each row, or for some.

    Args:
        whole: false if what is added may be several entries.
    """
    held = ip.heap[cell]
    around = frame.loops[len(held.loops) :] if held.loops == frame.loops[: len(held.loops)] else ()
    if not frame.forward or ip.sites.quiet or not around:
        return
    loop = around[0]
    if not isinstance(loop, ast.For) or not over_rows(ip, loop.iter):
        return
    always = whole and len(around) == 1 and frame.statement in loop.body and not any(map(_leaves, loop.body))
    held.of_slice = EACH if always and held.of_slice != SOME else SOME


def listed(ip: Interpreter, cell: int, node: ast.expr, frame: Frame) -> None:
    """A list is made by a comprehension, or by `list(…)`: over the rows of a slice, it has one entry for each."""
    if collected(ip, node.args[0] if isinstance(node, ast.Call) else node, frame):
        ip.heap[cell].of_slice = EACH if _has_each(node) else SOME


def _has_each(node: ast.expr) -> bool:
    """Whether nothing is left out on the way from an iterable to a list."""
    if isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
        plain = len(node.generators) == 1 and not node.generators[0].ifs
        return plain and not isinstance(node, ast.SetComp)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id not in ("set", "frozenset", "filter") and all(map(_has_each, node.args))
    return True


def single(ip: Interpreter, value: Value, frame: Frame) -> Value:
    """A number of a tensor that holds no other, inside a forward: a row's, or else the slice's."""
    return replace(value, batch=Batch(Dep.SAMPLE)) if among_rows(ip, frame) else UNBOUND


def picked(ip: Interpreter, base: Value, node: ast.Subscript, frame: Frame) -> bool:
    """Whether an entry is taken out of a list that was made of the rows of a slice, and no loop goes over them."""
    if not frame.forward or isinstance(node.slice, ast.Slice) or among_rows(ip, frame):
        return False
    return bool(_entries(ip, base))


def _entries(ip: Interpreter, value: Value) -> set[str]:
    """How lists that were made of the rows of a slice have entries for them; nothing for other lists."""
    return {ip.heap[cell].of_slice for cell in value.objs} - {""}


def counted(ip: Interpreter, value: Value, frame: Frame) -> Value | None:
    """How many entries a list has that was made of the rows of a slice; `None` if it was made of anything else."""
    found = _entries(ip, value) if frame.forward else set()
    if not found:
        return None
    return Value(batch=EXACT_ROWS) if found == {EACH} else Value(batch=Batch(Dep.PENDING, kind="sum"))


def joined(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], frame: Frame
) -> Value | None:
    """The tensor that is made of a list with entries for the rows of a slice; `None` if it is made of anything else."""
    if not frame.forward or not operands or name not in collating.JOINING:
        return None
    rows = operands[0][1]
    entries = _entries(ip, rows)
    if not entries:
        return None
    element = join_all(ip.heap[cell].element for cell in rows.objs)
    if element.dep not in (Dep.BOTTOM, Dep.GLOBAL, Dep.SAMPLE):
        return tensor(Batch(Dep.UNKNOWN, reason=element.batch.reason or CARRIED), element)
    flat = name not in ("stack", "tensor", "as_tensor", "pad_sequence") and element.batch.dim != 0
    ragged = flat or SOME in entries
    return tensor(Batch(Dep.SAMPLE, dim=collating.joined_dim(name, operands, keywords), ragged=ragged), element)


def counts_positions(values: Iterable[Value]) -> bool:
    """Whether one of these numbers is a row's position in the slice, which picks that row and tells nothing else."""
    return any(value.is_sample and value.batch.reason == POSITION for value in values)


def carry(ip: Interpreter, loop: ast.AST, frame: Frame) -> None:
    """After the body of a loop ran: the names that hold something of its row belong to the slice, until they are
    assigned again."""
    if not isinstance(loop, ast.For) or not frame.forward or ip.sites.quiet or not over_rows(ip, loop.iter):
        return
    if _any_over_rows(ip, tuple(outer for outer in frame.loops if outer is not loop)):
        return
    decided = set(_decided(ip, loop))
    for name in {*_stored(loop.target), *(name for part in loop.body for name in _stored(part))}:
        value = frame.env.get(name, EMPTY)
        plain = not (value.objs or value.roles or value.params or value.items or value.element)
        if value.is_sample or (name in decided and plain and value.dep in (Dep.BOTTOM, Dep.GLOBAL)):
            frame.env[name] = UNBOUND


def _leaves(node: ast.AST) -> bool:
    """Whether a statement may end the body of a loop before its end."""
    return any(isinstance(part, LEAVES) for part in inside(node))


def _decided(ip: Interpreter, loop: ast.For) -> Iterator[str]:
    """Names whose assignment depends on what is in a row."""
    for node in (part for item in loop.body for part in inside(item)):
        if isinstance(node, ast.If) and any(ip.current.get(part, EMPTY).is_sample for part in ast.walk(node.test)):
            for part in loop.body if _leaves(node) else [*node.body, *node.orelse]:
                yield from _stored(part)


def _stored(node: ast.AST) -> Iterator[str]:
    """The local names that a statement assigns."""
    for part in inside(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id
