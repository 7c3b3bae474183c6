"""Abstract interpretation: indexing."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import (
    attributes,
    changes,
    combining,
    deciding,
    expressions,
    indexed_wholes,
    library_losses,
    loops,
    modules,
    moving,
    row_loops,
    sinks,
)
from .joins import join
from .local import is_local
from .replacing import replace
from .values import EMPTY, EXACT_ROWS, GLOBAL, NOTHING, Batch, Dep, Role, Value, tensor

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter


def subscript(ip: Interpreter, node: ast.Subscript, frame: Frame) -> Value:
    """Value of `base[index]`."""
    base = expressions.evaluate(ip, node.value, frame)
    if base.is_param and not base.objs and base.items is None and changes.is_read(ip, base, frame):
        combining.full(ip, node.value, base)
        base = replace(base, is_param=False)
    value = _get(ip, base, index(ip, node.slice, frame), node, frame)
    return attributes.arrive_or_keep(ip, node, value, frame)


def index(ip: Interpreter, node: ast.expr, frame: Frame) -> Value:
    if isinstance(node, ast.Slice):
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                deciding.measured(ip, part, expressions.evaluate(ip, part, frame), frame)
        return EMPTY
    if isinstance(node, ast.Tuple):
        values = [index(ip, item, frame) for item in node.elts]
        return Value(items=tuple(values))
    value = expressions.evaluate(ip, node, frame)
    deciding.picked(ip, node, value, frame)
    return value


def _get(ip: Interpreter, base: Value, index: Value, node: ast.Subscript, frame: Frame) -> Value:
    if base.shape_dim is not None:
        return _of_shape(base, index, node)
    if base.ref == "sys.modules" and ip.text(node.slice) == "__name__":
        return modules.value_of(ip, ip.names.module(node))
    if base.ref is not None and base.ref.endswith(".__dict__") and not base.objs:
        name = index.const if isinstance(index.const, str) else "<dynamic>"
        return Value(ref=base.ref.removesuffix("__dict__") + name)
    if row_loops.picked(ip, base, node, frame):
        return row_loops.UNBOUND
    part = _part_of_list(ip, base, node, frame)
    if part is not None:
        return part
    if base.items is not None:
        return _of_tuple(base, index, node)
    if base.has(Role.LOADER) and not base.objs:
        return base
    if base.objs and not base.is_sample:
        return _of_container(ip, base, index, frame)
    if base.element is not None and not base.is_sample:
        return loops.element(ip, base, frame)
    if base.is_sample:
        return _of_sample(ip, base, index, node, frame)
    if base.batch.whole and not base.batch.exact and not is_local(index):
        return indexed_wholes.of_whole(ip, base, index, node, frame)
    if base.batch.whole and not base.batch.exact and not frame.forward:
        return indexed_wholes.whole_by_rows(ip, base, index, node, frame)
    if base.dep is Dep.GLOBAL or base.dep is Dep.BOTTOM:
        return indexed_wholes.of_global(ip, base, index, node, frame)
    return base


def _of_shape(base: Value, index: Value, node: ast.Subscript) -> Value:
    """One size (this rank's rows, if it is the batch dimension's) or a part of a shape."""
    dim = base.shape_dim
    if isinstance(node.slice, ast.Slice):
        lower = _constant(node.slice.lower)
        start = lower if isinstance(lower, int) else 0
        inside = dim is not None and dim >= start and dim >= 0 and start >= 0
        batch = base.batch if start == 0 else GLOBAL
        return replace(base, batch=batch, shape_dim=dim - start if inside and dim is not None else -1)
    if dim is not None and dim >= 0 and index.const == dim:
        return Value(batch=EXACT_ROWS, sources=base.sources, built=frozenset({node}))
    return Value(batch=base.batch if index.const == 0 else GLOBAL, measured=base.measured)


def _part_of_list(ip: Interpreter, base: Value, node: ast.Subscript, frame: Frame) -> Value | None:
    """`rows[i:i + n]` of a list: a range of a running loop picks a batch; `None` if it is no part of a list."""
    if not isinstance(node.slice, ast.Slice) or base.is_sample or not (base.objs or base.element is not None):
        return None
    if not _is_list(ip, base):
        return None
    bounds = (_constant(node.slice.lower), _constant(node.slice.upper))
    if base.items is not None and any(isinstance(bound, int) for bound in bounds):
        return None  # members that are known one by one
    element = loops.element(ip, replace(base, rows=False), frame)
    if frame.loops and not frame.forward and not base.params and moving.is_range(node.slice, frame):
        records = element.items is not None or bool(element.objs)
        return Value(batch=GLOBAL, element=element, rows=True, origin=node, weak=not records)
    return replace(base, items=None, element=element)


def _constant(node: ast.expr | None) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, int) else None
    return None


def _of_tuple(base: Value, index: Value, node: ast.Subscript) -> Value:
    items = base.items or ()
    position = _constant(node.slice)
    if isinstance(position, int) and -len(items) <= position < len(items):
        return items[position]
    if isinstance(node.slice, ast.Slice):
        lower, upper = _constant(node.slice.lower), _constant(node.slice.upper)
        bounds = [v if isinstance(v, int) else None for v in (lower, upper)]
        return replace(base, items=items[bounds[0] : bounds[1]])
    found = EMPTY
    for item in items:
        found = join(found, item)
    return found


def _of_container(ip: Interpreter, base: Value, index: Value, frame: Frame) -> Value:
    """A dict or list of the program, a `Sequential`, a dataset, a scheduler's groups."""
    found = EMPTY
    for cell in base.objs:
        held = ip.heap[cell]
        if isinstance(index.const, str) and index.const in held.attrs:
            found = join(found, held.attrs[index.const])
        elif held.cls is None and Role.MODEL in held.roles:
            found = join(found, Value(batch=GLOBAL, roles=held.roles, objs=frozenset({cell})))
        else:
            found = join(found, loops.member(ip, replace(base, objs=frozenset({cell})), frame))
    return found if found != EMPTY else Value(batch=GLOBAL, params=base.params)


def _is_list(ip: Interpreter, base: Value) -> bool:
    """Whether a value is a list that the program makes."""
    cells = [ip.heap[cell] for cell in base.objs]
    return all(cell.cls is None and cell.ref is None and not cell.roles and not cell.is_dict for cell in cells)


def _of_sample(ip: Interpreter, base: Value, index: Value, node: ast.Subscript, frame: Frame) -> Value:
    """Index of a tensor with a batch dimension, or of a batch of unknown structure."""
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    key = first.value if isinstance(first, ast.Constant) and not isinstance(node.slice, ast.Tuple) else None
    if library_losses.is_loss(base, key):
        return library_losses.of_output(base)
    if isinstance(key, str) or (base.opaque and key is not None):
        return replace(base, opaque=False, batch=replace(base.batch, by=None))
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    values = index.items if index.items is not None and isinstance(node.slice, ast.Tuple) else (index,)
    return _index_rows(ip, base, list(zip(parts, values)), node, frame)


def _index_rows(
    ip: Interpreter, base: Value, parts: list[tuple[ast.expr, Value]], node: ast.Subscript, frame: Frame
) -> Value:
    """Follow the batch dimension through the parts of an index."""
    if row_loops.is_lifted(ip, base, parts[0][0], frame):
        return tensor(Batch(Dep.SAMPLE, dim=0), base)
    dim, removed, position = base.batch.dim, 0, 0
    if any(isinstance(p, ast.Constant) and p.value is Ellipsis for p, _ in parts):
        before = [p for p, _ in parts].index(
            next(p for p, _ in parts if isinstance(p, ast.Constant) and p.value is ...)
        )
        parts = parts[:before]
    for part, value in parts:
        if isinstance(part, ast.Constant) and part.value is None:
            removed -= 1
            continue
        if position == dim:
            found = _at_batch_dim(ip, base, part, value, node, frame, dim - removed)
            return _one_of_each(found, parts[position + 1 - min(removed, 0) :]) if found.is_sample else found
        if not isinstance(part, ast.Slice):
            if value.is_sample:
                return replace(base, batch=Batch(Dep.SAMPLE, dim=None), leaf=False)
            if value.const is not NOTHING or (value.dep is Dep.GLOBAL and not value.origin):
                removed += 1
        position += 1
    new = None if dim is None else dim - removed
    ndim = None if base.batch.ndim is None else base.batch.ndim - removed
    return replace(base, batch=replace(base.batch, dim=new, ndim=ndim), leaf=False)


def _one_of_each(value: Value, rest: list[tuple[ast.expr, Value]]) -> Value:
    """Rows of which the rest of an index picks an element each: perhaps a number for each sample."""
    picked = bool(rest) and not any(isinstance(p, ast.Slice) or v.const is None for p, v in rest)
    return replace(value, batch=replace(value.batch, ndim=None, flat=True)) if picked else value


def _at_batch_dim(
    ip: Interpreter, base: Value, part: ast.expr, value: Value, node: ast.Subscript, frame: Frame, dim: int
) -> Value:
    """The batch dimension itself is indexed: whole, by a mask of this rank's rows, or by global position."""
    if isinstance(part, ast.Slice) and part.lower is None and part.upper is None and part.step is None:
        return replace(base, batch=replace(base.batch, dim=dim, ndim=None), leaf=False)
    if isinstance(part, ast.Slice) and part.lower is None and part.step is None and part.upper is not None:
        upper = ip.current.get(part.upper, EMPTY)
        if upper.dep is Dep.ROWS and upper.batch.exact and not base.batch.reason:
            return base
    if value.is_sample and not isinstance(part, ast.Slice):
        if _counts_rows(ip, value) and not base.batch.ragged and not base.batch.reason:
            return replace(base, batch=replace(base.batch, dim=dim, ndim=None), leaf=False)
        if value.batch.dim == 0:
            return replace(base, batch=replace(base.batch, ragged=True, ndim=None), leaf=False)
        return replace(base, batch=replace(base.batch, dim=None), leaf=False)
    if frame.forward:
        ip.sites.report("DST111", node)
        return tensor(Batch(Dep.UNKNOWN, reason="indexes the batch by position inside a forward"))
    sinks.gather(ip, node.value, base, frame)
    for bound in (part.lower, part.upper) if isinstance(part, ast.Slice) else (part,):
        if bound is not None and ip.current.get(bound, EMPTY).dep is Dep.ROWS:
            sinks.count(ip, bound, frame)
    return indexed_wholes.part_of_whole(base.batch, part, value, node, dim)


def _counts_rows(ip: Interpreter, value: Value) -> bool:
    """Whether an index numbers this rank's rows one by one (`out[torch.arange(len(y)), y]`): it picks them all."""
    batch, made = value.batch, next(iter(value.built), None)
    if len(value.built) != 1 or not isinstance(made, ast.Call) or batch.dim != 0 or batch.ragged or batch.reason:
        return False
    if made is not value.origin and value.origin is not None:
        return False
    name = ip.names.qualified(made.func) or ""
    counts = name == "builtins.range" or (name in ("torch.arange", "numpy.arange") and made is value.origin)
    size = ip.current.get(made.args[0], EMPTY) if len(made.args) == 1 else EMPTY
    return counts and size.dep is Dep.ROWS and size.batch.exact
