"""Operations along a dimension that can't be told: over whole batches they are right whichever it is."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import combining, dims
from .values import VARIES, Value, whole

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]


def dims_of(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], position: int, frame: Frame
) -> object:
    """The `dim` of a call, as `dims.of_call` gives it; "?" where calls of the function around it say different ones."""
    given = keywords.get("dim") or keywords.get("axis")
    if given is None and len(operands) > position:
        given = operands[position]
    if given is not None and not frame.forward and ip.sites.values.get(given[0], given[1]).const is VARIES:
        return "?"
    return dims.of_call(operands, keywords, position)


def settle(
    ip: Interpreter, over: object, operands: list[Operand], node: ast.Call, frame: Frame, of: Value | None = None
) -> Value | None:
    """The value of an operation that may run along the batch dimension, `None` where it surely does or doesn't.

    Inside a forward it is taken to work within each sample, as layers do, and a finding says so.

    Args:
        over: dimensions, as `dims.of_call` gives them.
        operands: what is gathered.
        of: the value whose dimensions they are, if not the first operand.
    """
    value = operands[0][1] if of is None else of
    if not value.is_sample or not dims.unsure(value.batch, over):
        return None
    if frame.forward:
        ip.sites.report("DST121", node)
        return None
    return combining.coupled(ip, operands, node, frame, whole(ndim=None))
