"""Where local values leave the tensors of an iteration: counts, gathers, reductions, arrivals."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import combining, edited, order
from .marks import Arrival, Count, Gathered, Reduction
from .naming import argument_of, needs_name, of_text
from .places import passed
from .replacing import replace
from .values import COUNTED, PACKED, REDUCED, Batch, Dep, Value, tensor

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
    if value.is_param:
        combining.full(ip, node, value)
        return replace(value, is_param=False)
    if value.items is not None and isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) == len(value.items):
        return replace(value, items=tuple(as_global(ip, n, v, frame) for n, v in zip(node.elts, value.items)))
    if value.dep is Dep.ROWS:
        count(ip, node, frame)
        return tensor(COUNTED if value.batch.exact else REDUCED)
    if value.shape_dim is not None and value.shape_dim >= 0:
        for origin in order.nodes(ip, value.built):
            _globalise_size(ip, origin, frame)
        return replace(value, batch=COUNTED if value.shape_dim == 0 else REDUCED, shape_dim=-1, built=frozenset())
    if value.dep is Dep.PENDING:
        return reduce_here(ip, node, value, frame)
    if value.dep is Dep.UNKNOWN:
        ip.sites.report("DST110", node, f"How this value depends on the batch can't be told: {value.batch.reason}.")
        return value
    for item in value.items or ():
        if item.dep is Dep.ROWS:
            for origin in order.nodes(ip, item.built):
                _keep_count(ip, origin, frame)
    if expressions.has_sample(value):
        return gather(ip, node, value, frame)
    return value


def count(ip: Interpreter, node: ast.expr, frame: Frame) -> None:
    """Make a host integer of local rows global, at the innermost expression that holds it."""
    value = ip.current.get(node)
    if value is not None and value.batch.mixed and value.built:
        for origin in order.nodes(ip, value.built):
            _keep_count(ip, origin, frame)
        return
    for part in _parts(node):
        if _is_rows(ip, part):
            count(ip, part, frame)
            return
    if isinstance(node, ast.BinOp):
        sides = [side for side in (node.left, node.right) if _is_rows(ip, side)]
        for side in sides:
            count(ip, side, frame)
        if sides:
            return
    if isinstance(node, ast.IfExp):
        for side in (node.body, node.orelse):
            if _is_rows(ip, side):
                count(ip, side, frame)
        return
    if isinstance(node, ast.Name) and value is not None and value.arg is not None:
        count(ip, value.arg, frame)
        return
    _keep_count(ip, node, frame)


def _parts(node: ast.expr) -> list[ast.expr]:
    """The expression whose count an expression passes on: `-n`, `int(n)`, `float(n)`."""
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.NamedExpr):
        return [node.value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("int", "float"):
        return node.args[:1]
    return []


def _keep_count(ip: Interpreter, node: ast.expr, frame: Frame) -> None:
    if is_runtime_argument(ip, node) or _is_unpacked(ip, node):
        return
    value = ip.current.get(node)
    of = of_text(ip, node, value, frame) if value is not None else None
    ip.sites.keep(ip.sites.counts, node, Count(node, of))


def _is_unpacked(ip: Interpreter, node: ast.expr) -> bool:
    """Whether an expression is several named arguments, which no runtime call takes for a number; that is reported."""
    parent = ip.parents.get(node)
    found = isinstance(parent, ast.keyword) and parent.arg is None
    if found:
        ip.sites.report("DST110", node, "What depends on the batch among these arguments can't be told.")
    return found


def _is_rows(ip: Interpreter, node: ast.expr) -> bool:
    value = ip.current.get(node)
    return value is not None and value.dep is Dep.ROWS


def gather(ip: Interpreter, node: ast.expr, value: Value, frame: Frame, why: str = "") -> Value:
    """Make per-sample values whole: all rows of the batch, in the original order."""

    if frame.forward:
        return value
    if value.built:
        for origin in order.nodes(ip, value.built):
            _globalise(ip, origin, frame)
        return edited.globalised(value)
    while _is_cpu_copy(node) and not is_runtime_argument(ip, node):
        node = node.func.value  # type: ignore[attr-defined]  # gathered where it was computed
    if not is_runtime_argument(ip, node):
        if _loses_order(value):
            ip.sites.report("DST114", node)
            return tensor(Batch(Dep.UNKNOWN, reason="rows interleaved with another dimension"))
        if hoisted(ip, node, value, frame):
            return edited.globalised(value)
        dim = value.batch.dim if value.is_sample and value.batch.dim is not None else 0
        before = ip.sites.gathers.get(node)
        why = why or ("" if before is None else before.why)
        parts = _is_list_of_tensors(ip, node, value)
        item = Gathered(node, dim, of_text(ip, node, value, frame), parts, why, value.rows)
        ip.sites.keep(ip.sites.gathers, node, item)
    return edited.globalised(value)


def _loses_order(value: Value) -> bool:
    """Whether rows can't be put in order again: flattened with another dimension, or by time steps of each rank."""
    if value.is_sample:
        return value.batch.dim is None or value.batch.reason == PACKED
    return any(_loses_order(v) for v in value.items or ())


def _is_list_of_tensors(ip: Interpreter, node: ast.expr, value: Value) -> bool:
    """Whether a value holds several tensors of rows, in a list that `gather` would take for one object per row."""
    from . import expressions

    inner = [*(value.items or ()), *([value.element] if value.element is not None else [])]
    if value.is_sample or not any(expressions.has_sample(v) for v in inner):
        return False
    # What a loader collates of lists and tuples is a list.
    is_tuple = value.items is not None and not value.objs and not value.sources
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        is_tuple = is_tuple or node.func.attr in ("unbind", "chunk", "split", "tensor_split")
    return not is_tuple and not any(ip.heap[cell].is_dict for cell in value.objs)


def hoisted(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> bool:
    """In a function that is called for several batches at a time, gather the arguments where their batch has a name."""
    if frame.caller is None or not needs_name(ip, value, frame):
        return False
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and _is_sample(ip, n)]
    given = [(argument_of(frame, n.id), n) for n in names]
    if not names or any(argument is None or frame.env[n.id].leaf for argument, n in given):
        return False
    for argument, _ in given:
        held = ip.current.get(argument) if argument is not None else None
        if argument is not None and held is not None and held.is_sample:
            gather(ip, argument, held, frame.caller)
    return True


def _is_sample(ip: Interpreter, node: ast.expr) -> bool:
    """Whether an expression was last a value per sample."""
    value = ip.current.get(node)
    return value is not None and value.is_sample


def _globalise(ip: Interpreter, node: ast.expr, frame: Frame) -> None:
    """Make what was built here whole: a tensor created with this rank's rows by its size, a part by its rows."""
    from . import expressions

    value = ip.current.get(node)
    if value is None or is_runtime_argument(ip, node):
        return
    if value.is_sample and value.built == {node}:
        sizes = [node.left, node.right] if isinstance(node, ast.BinOp) else []
        if isinstance(node, ast.Call):
            sizes = passed(node)
        for part in sizes:
            for item in part.elts if isinstance(part, (ast.Tuple, ast.List)) else [part]:
                _globalise_size(ip, item, frame)
    elif expressions.has_sample(value):
        gather(ip, node, value, frame)


def _globalise_size(ip: Interpreter, node: ast.expr, frame: Frame) -> None:
    """A size in the creation of a tensor: a row count, or the shape of a slice."""
    value = ip.current.get(node)
    if value is None:
        return
    if value.dep is Dep.ROWS:
        count(ip, node, frame)
    elif value.is_sample:
        gather(ip, node, value, frame)
    elif value.shape_dim is not None and value.shape_dim >= 0 and isinstance(node, (ast.Attribute, ast.Call)):
        holder = node.value if isinstance(node, ast.Attribute) else node.func
        holder = holder.value if isinstance(node, ast.Call) and isinstance(holder, ast.Attribute) else holder
        held = ip.current.get(holder)
        if held is not None and held.is_sample:
            gather(ip, holder, held, frame)


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
    of = None if converted else of_text(ip, node, value, frame)
    ip.sites.keep(ip.sites.reductions, node, Reduction(node, kind, by, of, converted))
    if converted:
        return tensor(Batch(Dep.PENDING, kind=kind, by=by), value)
    return Value(batch=REDUCED, params=value.params, terms=terms(kind))


def terms(kind: str) -> frozenset[str]:
    """What a value is linear in after a reduction: a maximum or a mean is averaged over a window, a sum is not."""
    return frozenset({"sum" if kind == "sum" else "mean"})


def arrive(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> Value:
    """A PENDING is used: it has to be reduced where it was unpacked, or here if it never had a name."""
    if value.arrival is None:
        return reduce_here(ip, node, value, frame)
    statement, target = value.arrival
    item = Arrival(statement, target, value.batch.kind, value.batch.by, of_text(ip, statement, value, frame))
    ip.sites.keep(ip.sites.arrivals, (statement, target), item)
    return Value(batch=REDUCED, params=value.params, terms=terms(value.batch.kind))
