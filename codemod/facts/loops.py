"""What iterating over a value gives: loaders, wrappers around them, containers, generators."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import collating, order, row_loops
from .joins import join, join_all
from .local import deep_sources
from .replacing import replace
from .values import EMPTY, EXACT_ROWS, GLOBAL, HOST, REDUCED, Batch, Dep, FunctionRef, Role, Value

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter


def element(ip: Interpreter, value: Value, frame: Frame) -> Value:
    """Value of one element; a loader's element is a batch, remembered for the loop that runs."""
    if value.has(Role.LOADER):
        found = batch(ip, value, frame)
    elif value.items is not None:
        found = join_all(value.items)
    elif value.element is not None:
        found = value.element
    elif value.objs:
        found = join_all(_cell_element(ip, cell, value, frame) for cell in value.objs)
    elif value.is_sample:
        dim = value.batch.dim - 1 if value.batch.dim else None
        reason = value.batch.reason if value.batch.reason == row_loops.POSITION else ""
        return replace(value, batch=Batch(Dep.SAMPLE, dim=dim, reason=reason), opaque=False, leaf=False)
    elif value.batch.whole:
        found = Value(batch=REDUCED)
    else:
        found = Value(batch=value.batch if value.batch.dep is not Dep.BOTTOM else GLOBAL)
    found = join(found, ip.heap.grown(value))
    if value.params and not found.params:
        found = replace(found, params=value.params)
    sources = deep_sources(found)
    if value.stream and sources:
        frame.alive.setdefault(_loop(frame), set()).add(sources)
    note_sources(ip, sources, frame)
    return found


def _loop(frame: Frame) -> ast.AST | None:
    """The loop whose iterations get the batches that are fetched now."""
    if frame.fetching is not None:
        return frame.fetching
    return frame.loops[-1] if frame.loops else None


def note_sources(ip: Interpreter, sources: frozenset[ast.AST], frame: Frame) -> None:
    """Batches of these sources are alive in the innermost running loop."""
    where = _loop(frame)
    if sources and where is not None:
        ip.loop_sources.setdefault(where, set()).update(sources)


def _cell_element(ip: Interpreter, cell: int, value: Value, frame: Frame) -> Value:
    """Element of one object: a list's, or what its class's `__iter__`/`__next__`/`__getitem__` gives."""
    from . import calls

    held = ip.heap[cell]
    if held.is_dict:
        return Value()
    if held.cls is None or frame.depth > 12:
        return held.element
    for name in ("__next__", "__iter__"):
        method = ip.classes.method(held.cls, name)
        if method is None:
            continue
        outer = frame.loops
        if name == "__next__" and frame.fetching is not None:
            frame.loops = (*outer, frame.fetching)  # each iteration calls it once
        result = calls.enter(ip, FunctionRef(method, cell), {}, ip.closure(method), None, frame)
        frame.loops = outer
        if name == "__next__":
            return result
        if result.objs != frozenset({cell}):
            return element(ip, result, frame)
    return held.element


def batch(ip: Interpreter, loader: Value, frame: Frame) -> Value:
    """One batch of a loader: local rows if its batches reach a prepared model, the whole batch otherwise."""
    shapes = [_structure(ip, cell, frame) for cell in loader.objs if Role.LOADER in ip.heap[cell].roles]
    shape = join_all(shapes) if shapes else Value(opaque=True)
    ip.note_way(frame, ip.made.training_defs)  # what goes over batches is no part of a forward
    _feed_with_others(ip, loader.sources, frame)
    sharded = ip.assume_feeds or bool(loader.sources & (ip.sites.feeds | ip.sites.sharded))
    frame.alive.setdefault(_loop(frame), set()).add(loader.sources)
    collated = any(order.callables(ip, ip.heap[cell].attrs.get("collate_fn", EMPTY)) for cell in loader.objs)
    return fill(ip, shape, loader.sources if sharded else frozenset(), sharded, collated)


def _feed_with_others(ip: Interpreter, sources: frozenset[ast.AST], frame: Frame) -> None:
    """A loop that goes over a sharded loader in one call of its function goes over slices in every call.

    The model may be one that nothing prepares: the best weights, loaded to be tested.
    """
    if frame.fetching is None:
        return
    calls = ip.sites.looped.setdefault(frame.fetching, {})
    mine = calls.setdefault(frame.call, set())
    mine |= sources
    fed = [bool(held & ip.sites.feeds) for call, held in calls.items() if call is not frame.call]
    if any(fed) and not (ip.assume_feeds or mine & ip.sites.feeds):
        ip.sites.feed(mine)


def holds_loader(ip: Interpreter, value: Value) -> bool:
    """Whether a container holds loaders."""
    inner = [*(value.items or ()), *([value.element] if value.element is not None else [])]
    inner.extend(ip.heap[cell].element for cell in value.objs)
    return any(v.has(Role.LOADER) for v in inner)


def member(ip: Interpreter, value: Value, frame: Frame) -> Value:
    """Value of `container[index]` for an unknown index: of what a list or dict holds, of what `__getitem__` gives."""
    from . import calls

    found = EMPTY
    for cell in value.objs:
        held = ip.heap[cell]
        method = ip.classes.method(held.cls, "__getitem__") if held.cls is not None else None
        if method is not None and frame.depth < 12:
            closure = ip.closure(method)
            found = join(found, calls.enter(ip, FunctionRef(method, cell), {1: HOST}, closure, None, frame))
        else:
            found = join(found, held.element)
    if value.params and not found.params:
        found = replace(found, params=value.params)
    note_sources(ip, deep_sources(found), frame)
    return found


def fill(ip: Interpreter, shape: Value, sources: frozenset[ast.AST], sharded: bool, collated: bool = False) -> Value:
    """Give every leaf of a sample's structure a batch dimension; `collated`: it is that of a batch already."""
    if shape.items is not None:
        items = tuple(fill(ip, v, sources, sharded, collated) for v in shape.items)
        if shape.dep is Dep.BOTTOM:
            return Value(items=items, names=shape.names, sources=sources)
        return replace(fill(ip, replace(shape, items=None), sources, sharded, collated), items=items)  # or a tensor
    if shape.objs:
        return _fill_dict(ip, shape, sources, sharded, collated)
    if shape.dep is Dep.ROWS:
        return Value(batch=EXACT_ROWS, sources=sources) if sharded else HOST
    if shape.batch.data:
        return Value(batch=REDUCED)
    if not sharded:
        return Value(batch=GLOBAL, opaque=shape.opaque, rows=shape.rows, element=shape.element)
    dim = shape.batch.dim if shape.is_sample else 0
    batch = Batch(Dep.SAMPLE, dim=dim)
    return Value(batch=batch, sources=sources, opaque=shape.opaque, leaf=True, rows=shape.rows)


def _fill_dict(ip: Interpreter, shape: Value, sources: frozenset[ast.AST], sharded: bool, collated: bool) -> Value:
    """A batch of samples that are dicts: a dict of batches. Each is filled once: it may hold itself."""
    cells, outermost = set(), not ip.filling
    for index in shape.objs:
        sample = ip.heap[index]
        cell = ip.heap.allocate(sample.node, "rows" if ip.sites.quiet else "batch", loops=sample.loops)
        cells.add(cell)
        if index in ip.filling:
            continue
        ip.filling.add(index)
        for name, value in sample.attrs.items():
            ip.heap.store(cell, name, fill(ip, leafless(ip, value, collated), sources, sharded, collated))
        ip.heap.add(cell, fill(ip, Value(), sources, sharded))
    if outermost:
        ip.filling.clear()
    return Value(objs=frozenset(cells), sources=sources)


def _structure(ip: Interpreter, cell: int, frame: Frame) -> Value:
    """Structure of a loader's batch: of what its collate function returns, else of its dataset's samples."""
    attrs = ip.heap[cell].attrs
    collate = attrs.get("collate_fn", EMPTY)
    if order.callables(ip, collate):
        sample = sample_of(ip, attrs.get("dataset", EMPTY), frame)
        return leafless(ip, collating.batch(ip, collate, sample, frame), True)
    if (collate.ref and not collate.ref.endswith(".default_collate")) or collate.objs:
        return Value(opaque=True)
    return leafless(ip, sample_of(ip, attrs.get("dataset", EMPTY), frame))


def leafless(ip: Interpreter, value: Value, collated: bool = False) -> Value:
    """Only the structure of a value; what is no tuple or dict is a leaf, and a leaf that is not known is opaque.

    Args:
        collated: it is a batch that a collate function of the program made, not a sample: it may hold numbers of all
            samples, and lists of them.
    """
    if value.rows and collated:
        return Value(rows=True, element=value.element)
    if value.items is not None and not any(ip.heap[cell].attrs for cell in value.objs):
        mixed = value.batch if value.is_sample else GLOBAL if value.dep is not Dep.BOTTOM else Batch()
        return Value(batch=mixed, items=tuple(leafless(ip, v, collated) for v in value.items), names=value.names)
    dicts = frozenset(cell for cell in value.objs if ip.heap[cell].attrs and ip.heap[cell].cls is None)
    if dicts:
        return Value(objs=dicts)
    if collated and value.dep is Dep.ROWS:
        return Value(batch=EXACT_ROWS if value.batch.exact else REDUCED)
    rowless = value.dep is Dep.GLOBAL and value.batch.data and not value.batch.whole
    if collated and (rowless or value.dep is Dep.PENDING):
        return Value(batch=REDUCED)
    unknown = value.opaque or (value == EMPTY) or bool(value.objs)
    return Value(batch=value.batch if value.is_sample else Batch(), opaque=unknown)


def sample_of(ip: Interpreter, dataset: Value, frame: Frame) -> Value:
    """Value of one sample of a dataset."""
    from . import calls

    found = EMPTY
    for index in dataset.objs:
        cell = ip.heap[index]
        if cell.cls is not None and frame.depth < 12:
            for name in ("__getitem__", "__iter__"):
                method = ip.classes.method(cell.cls, name)
                if method is not None:
                    closure = ip.closure(method)
                    result = calls.enter(ip, FunctionRef(method, index), {1: HOST}, closure, None, frame)
                    found = join(found, result.element or EMPTY if name == "__iter__" else result)
                    break
        elif "dataset" in cell.attrs:
            found = join(found, sample_of(ip, cell.attrs["dataset"], frame))
        elif cell.ref == "torch.utils.data.TensorDataset":
            count = cell.attrs.get("count", EMPTY).const
            found = join(found, Value(items=(HOST,) * count) if isinstance(count, int) else EMPTY)
        elif cell.element != EMPTY:
            found = join(found, cell.element)
    if dataset.element is not None and not dataset.objs:
        found = join(found, dataset.element)
    return found if found != EMPTY else Value(opaque=True)
