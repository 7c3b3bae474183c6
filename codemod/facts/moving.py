"""Slices whose bounds move with a running loop (`data[i:i + size]`): each iteration picks a batch of its own."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .naming import argument_of

if TYPE_CHECKING:
    from .interpreter import Frame


def is_range(index: ast.expr, frame: Frame) -> bool:
    """Whether an index (the first, of several) is a slice whose bounds move with a running loop."""
    return _is_bounded(index := _first(index)) and _reads(index, _names(frame))


def is_part(index: ast.expr, frame: Frame) -> bool:
    """Whether a comprehension makes this slice, one after another, for what goes over its list or takes from it."""
    innermost = frame.loops[-1] if frame.loops else None
    if not isinstance(innermost, ast.comprehension):
        return False
    return _is_bounded(index := _first(index)) and _reads(index, _stored(innermost.target))


def _first(index: ast.expr) -> ast.expr:
    """The index of the first dimension."""
    return index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index


def _is_bounded(index: ast.expr) -> bool:
    """Whether an index is a slice with both bounds."""
    return isinstance(index, ast.Slice) and index.lower is not None and index.upper is not None


def _names(frame: Frame) -> set[str]:
    """What the running loops count with, what a function counts up by itself (`self.index += 1`), what is computed
    from those in the loops, and the parameters that are given such."""
    loops = [loop for loop in frame.loops if isinstance(loop, (ast.For, ast.AsyncFor))]
    found = {name for loop in loops for name in _stored(loop.target)}
    where = frame.node or (frame.loops[-1] if frame.loops else None)
    for part in ast.walk(where) if where is not None and frame.loops else ():
        if isinstance(part, ast.AugAssign) and isinstance(part.op, ast.Add):
            found.add(ast.unparse(part.target))
    found |= _given(frame)
    inside = [part for loop in loops for part in ast.walk(loop) if isinstance(part, ast.Assign)]
    if isinstance(frame.node, ast.FunctionDef):
        inside += [part for part in ast.walk(frame.node) if isinstance(part, ast.Assign)]
    before = -1
    while len(found) != before:
        before = len(found)
        for statement in inside:
            if _counts(statement.value) and _reads(statement.value, found):
                found |= {name for target in statement.targets for name in _stored(target)}
    return found


def _given(frame: Frame) -> set[str]:
    """Parameters of the running function whose arguments move with a loop of its caller."""
    if frame.caller is None or not frame.caller.loops or not isinstance(frame.node, ast.FunctionDef):
        return set()
    names = [item.arg for item in [*frame.node.args.posonlyargs, *frame.node.args.args]]
    given = {name: argument_of(frame, name) for name in names}
    plain = {name: item for name, item in given.items() if item is not None and _counts(item)}
    moving = _names(frame.caller) if plain else set()
    return {name for name, item in plain.items() if _reads(item, moving)}


def _counts(node: ast.expr) -> bool:
    """Whether an expression is arithmetic, or the lesser or greater of such: a bound may be computed by it."""
    if isinstance(node, ast.BinOp):
        return _counts(node.left) and _counts(node.right)
    if isinstance(node, ast.Call):
        named = isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "int", "len")
        return named and all(_counts(item) or node.func.id == "len" for item in node.args)  # type: ignore[attr-defined]
    if isinstance(node, ast.Tuple):
        return all(_counts(item) for item in node.elts)
    return isinstance(node, (ast.Name, ast.Attribute, ast.Constant))


def _stored(target: ast.expr) -> set[str]:
    return {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}


def _reads(node: ast.expr, names: set[str]) -> bool:
    return any(isinstance(part, (ast.Name, ast.Attribute)) and ast.unparse(part) in names for part in ast.walk(node))


__all__ = ["is_part", "is_range"]
