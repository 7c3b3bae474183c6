"""Products of tensors: per sample, over the batch (a sum), or between samples."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import combining, sinks
from .torchnames import POSITIONS
from .values import Batch, Dep, Value, tensor

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]
_FLAT = Batch(Dep.SAMPLE, dim=None)


def matmul(ip: Interpreter, node: ast.expr, left: Operand, right: Operand, frame: Frame) -> Value:
    """`left @ right`."""
    (_, a), (_, b) = left, right
    if a.is_sample and b.is_sample:
        if a.batch.ndim == b.batch.ndim == 1 or (a.batch.dim == 1 and b.batch.dim == 0):
            return sinks.reduce_here(ip, node, tensor(a.batch, a, b), frame, "sum")
        if a.batch.dim == 0 and b.batch.dim == 1:
            return combining.coupled(ip, [left, right], node, frame)
    if a.is_sample and b.batch.whole and b.batch.dim == 1:
        return tensor(a.batch, a)
    return combining.elementwise(ip, [left, right], node, frame)


def call(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """matmul, mm, dot, linear."""
    if len(operands) < 2:
        return combining.elementwise(ip, [*operands, *keywords.values()], node, frame)
    (_, a), (_, b) = operands[:2]
    if name in ("dot", "vdot"):
        value = tensor(Batch(Dep.SAMPLE, dim=0, ndim=1), a, b)
        return sinks.reduce_here(ip, node, value, frame, "sum")
    if name in ("linear", "inner"):
        mixes = a.is_sample and b.is_sample
        return (combining.coupled if mixes else combining.elementwise)(ip, operands, node, frame)
    return matmul(ip, node, operands[0], operands[1], frame)


def pairwise(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """cdist, outer: each row of one with each row of the other; per sample where the other is the same on all ranks."""
    if name in POSITIONS or sum(v.is_sample for _, v in operands[:2]) > 1 or not operands[0][1].is_sample:
        return combining.coupled(ip, operands, node, frame)
    return combining.elementwise(ip, operands, node, frame)


def of_matrices(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """Of the matrix that each sample is; of one matrix with the rows in it where nothing says that there are more."""
    ndim = operands[0][1].batch.ndim
    per_sample = ndim > 2 if ndim is not None else frame.forward
    if per_sample or not operands[0][1].is_sample:
        return combining.elementwise(ip, [*operands, *keywords.values()], node, frame)
    return combining.coupled(ip, operands, node, frame)


def einsum(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """Follow the letter of the batch dimension through an equation."""
    equation, tensors = operands[0][1].const, _listed(operands[1:])
    said = _terms(equation, [v for _, v in tensors]) if isinstance(equation, str) else None
    if said is None:
        # Which dimensions it adds up over can't be told.
        sampled = any(v.is_sample for _, v in tensors) and not frame.forward
        return (combining.coupled if sampled else combining.elementwise)(ip, tensors, node, frame)
    inputs, output = said
    letters = set()
    for subscript, (_, value) in zip(inputs, tensors):
        if value.is_sample and value.batch.dim is not None and value.batch.dim < len(subscript):
            letters.add(subscript[value.batch.dim])
    values = [v for _, v in tensors]
    if len(letters) != 1:
        return combining.coupled(ip, tensors, node, frame) if letters else tensor(_FLAT, *values)
    letter = letters.pop()
    if letter not in output:
        return sinks.reduce_here(ip, node, tensor(Batch(Dep.SAMPLE, dim=0), *values), frame, "sum")
    return tensor(Batch(Dep.SAMPLE, dim=output.index(letter), ndim=len(output)), *values)


def _terms(equation: str, values: list[Value]) -> tuple[list[str], str] | None:
    """The subscripts of an equation's inputs and output, with letters for "..." where the numbers of dimensions tell.

    Without an arrow the output has the letters that occur once, in alphabetical order.
    """
    inputs, arrow, output = equation.replace(" ", "").replace("...", ".").partition("->")
    subscripts = inputs.split(",")
    if len(subscripts) != len(values):
        return None
    if not arrow:
        once = sorted(c for c in set(inputs) - {",", "."} if inputs.count(c) == 1)
        output = ("." if "." in inputs else "") + "".join(once)
    if "." not in inputs:
        return subscripts, output
    # Letters before the dots stand where they say; behind them, the batch dimension is one of the dots' if it is first.
    for subscript, value in zip(subscripts, values):
        ndim, dim = value.batch.ndim, value.batch.dim
        if value.is_sample and (dim is None or (dim > 0 and "." in subscript[: dim + 1])):
            return None
        if value.is_sample and subscript.startswith(".") and ndim is not None and ndim < len(subscript):
            return None
    if "." not in output and any(s.startswith(".") for s, v in zip(subscripts, values) if v.is_sample):
        return None
    return subscripts, output


def _listed(operands: list[Operand]) -> list[Operand]:
    """The tensors of an equation, given one by one or as a list."""
    if len(operands) == 1 and operands[0][1].items is not None:
        node, value = operands[0]
        nodes = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node] * len(value.items or ())
        return list(zip(nodes, value.items or ()))
    return operands
