"""Where local values leave the tensors of an iteration: counts, gathers, arrivals, and the batch that they name."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from .model import Arrival, Count, Gathered, Reduction
from .values import REDUCED, Batch, Dep, Value, tensor

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter


def is_runtime_argument(ip: Interpreter, node: ast.AST) -> bool:
    """Whether an expression is what a runtime call reduces, or its `by=` or `of=`: it is converted already."""
    parent = ip.parents.get(node)
    if isinstance(parent, ast.keyword) and parent.arg in ("by", "of"):
        parent = ip.parents.get(parent)
    elif not isinstance(parent, ast.Call) or not parent.args or parent.args[0] is not node:
        return False
    assert isinstance(parent, ast.Call)
    return (ip.names.qualified(parent.func) or "").startswith("distify.runtime.")


def as_global(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> Value:
    """A value that must be the same on every rank from here on (printed, compared, stored, given to foreign code)."""
    from . import expressions

    if frame.forward or is_runtime_argument(ip, node):
        return value
    if value.items is not None and isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) == len(value.items):
        return replace(value, items=tuple(as_global(ip, n, v, frame) for n, v in zip(node.elts, value.items)))
    if value.dep is Dep.ROWS:
        count(ip, node, frame)
        return tensor(REDUCED)
    if value.dep is Dep.PENDING:
        return reduce_here(ip, node, value, frame)
    if expressions.has_sample(value):
        return gather(ip, node, value, frame)
    return value


def count(ip: Interpreter, node: ast.expr, frame: Frame) -> None:
    """Make a host integer of local rows global, at the innermost expression that holds it."""
    value = ip.current.get(node)
    if isinstance(node, ast.BinOp):
        sides = [s for s in (node.left, node.right) if _is_rows(ip, s)]
        for side in sides:
            count(ip, side, frame)
        if sides:
            return
    if isinstance(node, ast.UnaryOp) and _is_rows(ip, node.operand):
        count(ip, node.operand, frame)
        return
    if isinstance(node, ast.IfExp):
        for side in (node.body, node.orelse):
            if _is_rows(ip, side):
                count(ip, side, frame)
        return
    if isinstance(node, ast.Name) and value is not None and value.arg is not None:
        count(ip, value.arg, frame)
        return
    if is_runtime_argument(ip, node):
        return
    of = of_text(ip, value, frame) if value is not None else None
    ip.sites.keep(ip.sites.counts, node, Count(node, of))


def _is_rows(ip: Interpreter, node: ast.expr) -> bool:
    value = ip.current.get(node)
    return value is not None and value.dep is Dep.ROWS


def gather(ip: Interpreter, node: ast.expr, value: Value, frame: Frame, why: str = "") -> Value:
    """Make per-sample values whole: all rows of the batch, in the original order."""
    from . import expressions

    if frame.forward:
        return value
    while _is_cpu_copy(node) and not is_runtime_argument(ip, node):
        node = node.func.value  # type: ignore[attr-defined]  # gathered where it was computed
    if not is_runtime_argument(ip, node):
        if value.is_sample and value.batch.dim is None:
            ip.sites.report("DST114", node)
            return tensor(Batch(Dep.UNKNOWN, reason="rows interleaved with another dimension"))
        dim = value.batch.dim if value.is_sample and value.batch.dim is not None else 0
        ip.sites.keep(ip.sites.gathers, node, Gathered(node, dim, of_text(ip, value, frame)))
        if why:
            ip.sites.report(why, node)
    return expressions.globalised(value)


def _is_cpu_copy(node: ast.expr) -> bool:
    """`x.cpu()`."""
    call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args
    return call and node.func.attr == "cpu"  # type: ignore[attr-defined]


def reduce_here(
    ip: Interpreter, node: ast.expr, value: Value, frame: Frame, kind: str = "", by: str | None = None
) -> Value:
    """Reduce over ranks where a value without batch dimension appears: `runtime.<kind>(node)`."""
    kind = kind or value.batch.kind
    by = by if by is not None else value.batch.by
    if frame.forward:
        return tensor(Batch(Dep.PENDING, kind=kind, by=by), value)
    converted = is_runtime_argument(ip, node)
    ip.sites.keep(
        ip.sites.reductions,
        node,
        Reduction(node, kind, by, None if converted else of_text(ip, value, frame), converted),
    )
    if converted:
        return tensor(Batch(Dep.PENDING, kind=kind, by=by), value)
    return Value(batch=REDUCED, params=value.params)


def arrive(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> Value:
    """A PENDING is used: it has to be reduced where it was unpacked, or here if it never had a name."""
    if value.arrival is None:
        return reduce_here(ip, node, value, frame)
    statement, target = value.arrival
    item = Arrival(statement, target, value.batch.kind, value.batch.by, of_text(ip, value, frame))
    ip.sites.keep(ip.sites.arrivals, (statement, target), item)
    return Value(batch=REDUCED, params=value.params)


def of_text(ip: Interpreter, value: Value, frame: Frame) -> str | None:
    """Source text of a tensor of the batch that a value belongs to, where several batches are alive."""
    from . import expressions

    sources = expressions.deep_sources(value)
    if not sources or not _several_batches(ip, sources, frame):
        return None
    for name, held in frame.env.items():
        if held.is_sample and held.batch.dim == 0 and not held.opaque and held.sources and held.sources <= sources:
            return name
    return None


def _several_batches(ip: Interpreter, sources: frozenset[ast.AST], frame: Frame) -> bool:
    """Whether batches of more than one source are alive in the innermost loop that makes them."""
    if any(_is_fetched_ahead(source, frame) for source in sources & set(ip.sites.splits)):
        return True
    for loop in reversed(frame.loops):
        current: Frame | None = frame
        while current is not None:
            if loop in current.alive:
                return len(current.alive[loop]) > 1
            current = current.caller
    return False


def _is_fetched_ahead(source: ast.AST, frame: Frame) -> bool:
    """Whether a hand-made batch was fetched before the iteration that uses it (others may have been in between)."""
    if not frame.loops or frame.statement is None:
        return False
    loop = frame.loops[-1]
    inside = any(part is source for part in ast.walk(loop))
    here = getattr(frame.statement, "lineno", 0)
    return not inside or getattr(source, "lineno", 0) > here
