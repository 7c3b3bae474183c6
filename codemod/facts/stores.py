"""Abstract interpretation: assignment to names, attributes, items and tuples, and augmented assignment."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import (
    ahead,
    attributes,
    changes,
    combining,
    divisors,
    edited,
    expressions,
    indexed_wholes,
    loops,
    memory,
    modules,
    overloaded,
    pieces,
    ranks,
    sinks,
)
from .replacing import replace
from .values import EMPTY, EXACT_ROWS, GLOBAL, Dep, Role, Value

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

BY_POSITION = "It is written into the batch by position, and each process holds a slice."


def store(ip: Interpreter, target: ast.expr, value: Value, statement: ast.AST | None, frame: Frame) -> None:
    """Assign an evaluated value to a target."""
    if frame.swayed and not value.roles and not value.objs:
        value = ranks.added(value, frame.swayed)
    if isinstance(target, ast.Name):
        value = _of_iteration(ip, target, value, statement, frame)
        assigned = isinstance(statement, (ast.Assign, ast.AnnAssign)) and not frame.forward
        if value.dep is Dep.PENDING and value.arrival is None and assigned and isinstance(statement, ast.stmt):
            value = replace(value, arrival=(statement, target.id))
        ip.bind(target.id, value, frame)
        ip.sites.record(target, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(ip, target, value, statement, frame)
    elif isinstance(target, ast.Starred):
        store(ip, target.value, Value(element=loops.element(ip, value, frame)), statement, frame)
    elif isinstance(target, ast.Attribute):
        _attribute(ip, target, value, frame)
    elif isinstance(target, ast.Subscript):
        _item(ip, target, value, frame)


def _of_iteration(ip: Interpreter, target: ast.Name, value: Value, statement: ast.AST | None, frame: Frame) -> Value:
    """A part of data that a loop gets is a batch, cut to this rank's rows where the body begins."""
    if not isinstance(statement, (ast.For, ast.AsyncFor)) or frame.forward:
        return value
    return edited.as_edited(ip, target, pieces.picked(value, target, frame))


def _unpack(
    ip: Interpreter, target: ast.Tuple | ast.List, value: Value, statement: ast.AST | None, frame: Frame
) -> None:
    """Unpack into several targets."""
    ip.sites.record(target, value)
    count = len(target.elts)
    star = next((i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)), None)
    if value.shape_dim is not None:
        parts = [_size(value, i, i if star is None or i < star else i - count) for i in range(count)]
    elif value.items is not None and (len(value.items) == count or star is not None):
        parts = _members(value.items, count, star)
    elif value.is_sample and value.opaque:
        parts = [replace(value, opaque=False)] * count
    elif value.is_sample:
        part = sinks.gather(ip, statement.value, value, frame) if isinstance(statement, ast.Assign) else value
        parts = [part] * count
    else:
        parts = [loops.element(ip, value, frame)] * count
    if ip.program.by_hand and value.ranks and value.items is None:
        parts = [ranks.added(part, value.ranks) for part in parts]
    for item, part in zip(target.elts, parts):
        store(ip, item, part, statement, frame)


def _size(shape: Value, index: int, position: int) -> Value:
    """One size of an unpacked shape."""
    if index == shape.shape_dim and position >= 0:
        return Value(batch=EXACT_ROWS, sources=shape.sources)
    return Value(batch=shape.batch if position == 0 else GLOBAL, measured=shape.measured)


def _members(items: tuple[Value, ...], count: int, star: int | None) -> list[Value]:
    if star is None:
        return list(items)
    after = count - star - 1
    middle = items[star : len(items) - after]
    return [*items[:star], Value(items=middle), *items[len(items) - after :]]


def _attribute(ip: Interpreter, target: ast.Attribute, value: Value, frame: Frame) -> None:
    """`base.attr = value`: into every object that the base may be; submodules learn their root."""
    base = expressions.evaluate(ip, target.value, frame)
    if value.dep is Dep.PENDING and not frame.forward:
        value = replace(value, arrival=None)
    memory.note_assigned(ip, target, value, frame)
    if base.is_param and target.attr in ("data", "grad"):
        changes.note(ip, target.value, base, frame, grads=target.attr == "grad")
        if target.attr == "grad" and not changes.in_optimizer(ip, frame):
            ip.made.grads.add(target)
    for cell in base.objs:
        module = modules.of_cell(ip, cell)
        if module is not None:
            ip.frames[module].env[target.attr] = value
            continue
        if overloaded.assigned(ip, cell, target.attr, value, frame):
            continue
        ip.heap.store(cell, target.attr, divisors.stored(ip, cell, replace(value, arrival=None), frame))
        ahead.kept(ip, value)
        if Role.MODEL in ip.heap[cell].roles:
            adopt(ip, cell, _registered(ip, value))
    ip.sites.record(target, value)


def _registered(ip: Interpreter, value: Value) -> Value:
    """What a module takes as its part where it is assigned to an attribute: no plain list or dict of modules."""
    found = frozenset(cell for cell in value.objs if ip.heap[cell].cls or ip.heap[cell].roles or ip.heap[cell].ref)
    return replace(value, objs=found, items=None, element=None)


def adopt(ip: Interpreter, cell: int, value: Value) -> None:
    """Modules held by a module are parts of it."""
    members = [value, *(value.items or ())]
    if value.element is not None:
        members.append(value.element)
    for member in members:
        for part in member.objs if not member.part else ():
            held = ip.heap[part]
            if held.root is None and part != cell and attributes.root(ip, cell) != part:
                held.root = cell
                ip.heap.changed = True
            if held.cls is None and not held.roles and held.element != EMPTY:
                adopt(ip, cell, held.element)


def _item(ip: Interpreter, target: ast.Subscript, value: Value, frame: Frame) -> None:
    """`base[index] = value`: per-sample values stored in something that outlives the iteration are gathered."""
    base = expressions.evaluate(ip, target.value, frame)
    index = EMPTY if isinstance(target.slice, (ast.Slice, ast.Tuple)) else expressions.evaluate(ip, target.slice, frame)
    memory.note(ip, target, value, frame)
    if base.objs and overloaded.run(ip, base, "__setitem__", [index, replace(value, arrival=None)], frame) is not None:
        ip.sites.record(target, value)
        return
    if base.is_param:
        changes.note(ip, target.value, base, frame)
    if base.is_sample and not frame.forward:
        value = into_slice(ip, target, base, value, frame)
    if base.is_sample and frame.forward and indexed_wholes.is_by_position(ip, base, target) and _is_fixed(target.slice):
        ip.sites.report("DST111", target, BY_POSITION)
    outlives = not base.is_sample and not frame.forward and base.dep is Dep.GLOBAL
    if outlives and index.is_sample:
        sinks.gather(ip, target.slice, index, frame)
    for item in target.slice.elts if isinstance(target.slice, ast.Tuple) else []:
        held = EMPTY if isinstance(item, ast.Slice) else expressions.evaluate(ip, item, frame)
        if outlives and held.is_sample:
            sinks.gather(ip, item, held, frame)
    if isinstance(target.slice, (ast.Slice, ast.Tuple)):
        _count_bounds(ip, target.slice, frame, outlives)
    statement = frame.statement
    if outlives and expressions.has_sample(value) and isinstance(statement, ast.Assign):
        value = sinks.gather(ip, statement.value, value, frame)
    if value.dep is Dep.ROWS and base.objs and isinstance(statement, ast.Assign):
        value = sinks.as_global(ip, statement.value, value, frame)
    if ip.program.by_hand and isinstance(target.value, ast.Name) and not base.objs and ranks.held(ip, value):
        ip.bind(target.value.id, ranks.added(base, ranks.held(ip, value)), frame)
    for cell in base.objs:
        ip.heap.outlive(cell, value)
        value = divisors.stored(ip, cell, value, frame)
        if isinstance(index.const, str):
            ip.heap.store(cell, index.const, value)
        ip.heap.add(cell, keep(ip, cell, value, frame, statement))
        if Role.MODEL in ip.heap[cell].roles:
            adopt(ip, cell, value)
    ip.sites.record(target, value)


def _is_fixed(index: ast.expr) -> bool:
    """Whether an index is written in numbers: any other may go over the rows that are there."""
    return not any(isinstance(node, (ast.Name, ast.Attribute, ast.Call)) for node in ast.walk(index))


def _count_bounds(ip: Interpreter, index: ast.expr, frame: Frame, outlives: bool) -> None:
    """Rows counted in the bounds of a slice, `a[k:k + len(x)]`: of the whole batch, where the whole of it is stored."""
    for part in index.elts if isinstance(index, ast.Tuple) else [index]:
        for bound in (part.lower, part.upper) if isinstance(part, ast.Slice) else (part,):
            held = expressions.evaluate(ip, bound, frame) if bound is not None else EMPTY
            if bound is None or not outlives:
                continue
            if held.dep is Dep.ROWS:
                sinks.count(ip, bound, frame)
                continue
            for inner in ast.walk(bound):  # in a call whose result isn't known to be a count: `max(k, n)`
                value = ip.current.get(inner) if isinstance(inner, ast.Name) else None
                if value is not None and value.dep is Dep.ROWS:
                    assert isinstance(inner, ast.expr)
                    sinks.count(ip, inner, frame)


def into_slice(ip: Interpreter, target: ast.Subscript, base: Value, value: Value, frame: Frame) -> Value:
    """Write into rows: a whole batch is cut to them first; by position in the batch only if the rows can be whole."""
    statement = frame.statement
    if indexed_wholes.is_by_position(ip, base, target):
        split = [source for source in base.sources if source in ip.sites.splits]
        if base.built:
            sinks.gather(ip, target.value, base, frame)
        elif split:
            for source in split:
                ip.made.filled.add(source)
                del ip.sites.splits[source]
            ip.sites.changed = True
        else:
            ip.sites.report("DST110", target, BY_POSITION)
        return value
    if value.batch.whole and isinstance(statement, ast.Assign):
        combining.meet(ip, [(target.value, base), (statement.value, value)], frame)
    return value


def keep(ip: Interpreter, cell: int, value: Value, frame: Frame, statement: ast.stmt | None) -> Value:
    """What a container holds of a value stored by a statement: per-sample values that outlive their batch, gathered."""
    if not expressions.has_sample(value) or not outlives_batch(ip, cell, frame):
        return value
    if isinstance(statement, ast.Assign):
        return sinks.gather(ip, statement.value, value, frame)
    return value


def outlives_batch(ip: Interpreter, cell: int, frame: Frame) -> bool:
    """Whether an object was made outside of the innermost running loop over batches."""
    if frame.forward:
        return False
    made = ip.heap[cell].loops
    for loop in reversed(frame.loops):
        if ip.loop_sources.get(loop):
            return loop not in made
    return False
