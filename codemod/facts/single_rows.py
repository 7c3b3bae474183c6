"""Batches of one row that a model only looks at: `with torch.no_grad(): action = net(state.unsqueeze(0)).argmax()`.

Every process computes what comes of them: there is nothing to share, and no gradient that would count several times.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .places import FUNCTIONS

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

_OFF = ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.inference_mode")


def is_looked_at(ip: Interpreter, origin: ast.expr, node: ast.Call, frame: Frame) -> bool:
    """Whether a hand-made batch has one row, and this forward takes no gradient."""
    return _is_one_row(origin) and _without_gradient(ip, node, frame)


def _is_one_row(origin: ast.expr) -> bool:
    """`x.unsqueeze(0)`, `torch.unsqueeze(x, 0)`, `x[None]`."""
    if isinstance(origin, ast.Subscript):
        first = origin.slice.elts[0] if isinstance(origin.slice, ast.Tuple) and origin.slice.elts else origin.slice
        return isinstance(first, ast.Constant) and first.value is None
    if (
        not isinstance(origin, ast.Call)
        or not isinstance(origin.func, ast.Attribute)
        or origin.func.attr != "unsqueeze"
    ):
        return False
    given = [*origin.args, *[k.value for k in origin.keywords if k.arg == "dim"]]
    return bool(given) and isinstance(given[-1], ast.Constant) and given[-1].value == 0


def _without_gradient(ip: Interpreter, node: ast.Call, frame: Frame) -> bool:
    """Whether a block or a decorator around a call, or around one that led to it, switches gradients off."""
    around: ast.AST | None = node
    for current in frame.chain():
        while around is not None:
            around = ip.parents.get(around)
            made = [item.context_expr for item in around.items] if isinstance(around, ast.With) else []
            made += around.decorator_list if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
            if any(ip.names.qualified(item.func if isinstance(item, ast.Call) else item) in _OFF for item in made):
                return True
            if isinstance(around, FUNCTIONS):
                break
        around = current.call
    return False
