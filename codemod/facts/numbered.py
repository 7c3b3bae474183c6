"""Numbers of rows inside a forward: each process counts those of its slice from 0, the original those of the batch.

    rows = torch.arange(len(x))
    picked = h[rows, y]           # picks each row once: nothing is told by its number
    h = h + self.place(rows)      # gives a row something by its number: rows of other processes get the same

Followed through the forward; what reaches its result is reported.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..dataclass import dataclass
from .ranks import added, held
from .values import EMPTY, Role, Value, union

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

MESSAGE = "What this gives to a sample depends on the sample's number in the batch, and each process holds a slice."
HINT = "number the rows outside of the forward, where that is the whole batch's, and pass it in: model(x, rows)"
# What is told of a tensor without its numbers.
OUTSIDE = frozenset(
    {"shape", "size", "dim", "numel", "device", "dtype", "ndim", "len", "isinstance", "type", "id", "print"}
)
# Methods and functions by an index: what they give is in the tensor that they take it from, or put it into.
INDEXED = frozenset(
    ["gather", "take_along_dim", "index_select", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce",
     "scatter_reduce_", "index_add", "index_add_", "index_copy", "index_copy_", "index_put", "index_put_"]
)  # fmt: skip
LOCAL = ("torch_scatter.", "torch_geometric.", "torch_sparse.", "torchvision.ops.")
"""Libraries that take the numbers of the slice's rows as such: what belongs to which image or graph."""


@dataclass(frozen=True)
class Numbers:
    """Where rows of a slice are numbered; stands in `Value.ranks`."""

    node: ast.expr


def numbered(ip: Interpreter, value: Value, node: ast.expr, frame: Frame) -> Value:
    """The numbers of this process's rows, made by an expression."""
    if not frame.forward or ip.sites.quiet or ip.program.by_hand:
        return value
    ip.made.numbered.add(node)
    return added(value, frozenset({Numbers(node)}))


def followed(ip: Interpreter, node: ast.expr, value: Value) -> Value:
    """The value of an expression of a forward with the numbers of rows that went into it."""
    if isinstance(node, (ast.Name, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Lambda, ast.Starred)):
        return value
    if isinstance(node, ast.Call):
        found = _called(ip, node)
    elif isinstance(node, ast.Attribute):
        found = frozenset() if node.attr in OUTSIDE else _of(ip, node.value)
    elif isinstance(node, ast.Subscript):
        parts = [node.value] if _is_of_slice(ip, node.value) else [node.value, *_parts(node.slice)]
        found = union(_of(ip, part) for part in parts)
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        found = _of(ip, node.elt)
    else:
        found = union(_of(ip, child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    return added(value, found)


def _called(ip: Interpreter, node: ast.Call) -> frozenset[object]:
    callee = ip.current.get(node.func, EMPTY)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    qualified = ip.names.qualified(node.func) or callee.ref or ""
    if callee.defs or callee.classes or name in OUTSIDE or qualified.startswith(LOCAL):
        return frozenset()
    if any(ip.heap[cell].cls is not None for cell in callee.objs):
        return frozenset()  # a module of the program: what its forward returns is followed by itself
    operands = [item.value if isinstance(item, ast.Starred) else item for item in node.args]
    operands += [keyword.value for keyword in node.keywords]
    if isinstance(node.func, ast.Attribute) and not qualified and not callee.has(Role.MODEL):
        operands.insert(0, node.func.value)
    if name in INDEXED and operands and _is_of_slice(ip, operands[0]):
        operands = [operands[0], *operands[3:]]  # and what is put there
    return union(_of(ip, item) for item in operands)


def _of(ip: Interpreter, node: ast.expr) -> frozenset[object]:
    found = held(ip, ip.current.get(node, EMPTY))
    return frozenset(item for item in found if isinstance(item, Numbers))


def _parts(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _is_of_slice(ip: Interpreter, node: ast.expr) -> bool:
    """Whether something has, or lists, the rows of the slice, which its numbers pick one by one."""
    value = ip.current.get(node, EMPTY)
    return value.is_sample or bool(value.objs) or (value.element is not None and value.element.is_sample)


def returned(ip: Interpreter, value: Value, frame: Frame) -> Value:
    """What a forward returns, which may not tell the numbers of rows where the forward ends."""
    if ip.made.numbered and not frame.forward:
        for item in held(ip, value):
            if isinstance(item, Numbers):
                ip.sites.report("DST111", item.node, MESSAGE, HINT)
    return value
