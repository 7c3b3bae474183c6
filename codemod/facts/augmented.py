"""Abstract interpretation: augmented assignment, `total += loss`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import (
    bends,
    changes,
    edited,
    expressions,
    loops,
    operators,
    overloaded,
    ranks,
    sinks,
    stores,
    subscripts,
)
from .replacing import replace
from .values import EMPTY, REDUCED, Dep, Value, tensor

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter


def augment(ip: Interpreter, node: ast.AugAssign, frame: Frame) -> None:
    """`target op= value`: what accumulates beyond the iteration is global."""
    load = _as_load(ip, node.target)
    if isinstance(node.target, ast.Subscript) and not frame.forward:
        subscripts.index(ip, node.target.slice, frame)
        base = expressions.evaluate(ip, node.target.value, frame)
        if base.is_sample:
            stores.into_slice(ip, node.target, base, EMPTY, frame)
    old = expressions.evaluate(ip, load, frame)
    new = expressions.evaluate(ip, node.value, frame)
    if old.is_param:
        changes.note(ip, node.target, old, frame)
    own = overloaded.combined(ip, node.op, old, new, frame, in_place=True)
    if own is not None:
        stores.store(ip, node.target, own, node, frame)
        return
    if old.objs and isinstance(node.op, ast.Add) and not old.roles and old.dep is Dep.BOTTOM:
        _extend(ip, node, old, new, frame)
        return
    if new.dep is Dep.ROWS and (not frame.forward or old.dep is Dep.ROWS):
        sinks.count(ip, node.value, frame)
        new = replace(tensor(REDUCED), terms=sinks.terms("sum"))
    if _is_part_of_whole(ip, node.target, frame):
        new = sinks.gather(ip, node.value, new, frame) if expressions.has_sample(new) else new
        old = edited.globalised(old) if old.is_sample else old  # the store gathers its index
    if new.is_sample and old.dep in (Dep.GLOBAL, Dep.BOTTOM) and _accumulates(ip, node, frame):
        ip.sites.report("DST117", node)
    value = operators.combine(ip, node.op, (load, old), (node.value, new), node.value, frame)
    if not frame.forward:
        value = bends.combined(ip, node.op, node.value, (load, old), (node.value, new), value, in_place=True)
    if ip.program.by_hand:
        value = ranks.added(value, ranks.held(ip, old) | ranks.held(ip, new))
    stores.store(ip, node.target, value, node, frame)


def _is_part_of_whole(ip: Interpreter, target: ast.expr, frame: Frame) -> bool:
    """Whether a target is picked out of a tensor that every process has whole: `seen[rows] += 1`."""
    if frame.forward or not isinstance(target, ast.Subscript):
        return False
    base = ip.current.get(target.value, EMPTY)
    return base.dep is Dep.GLOBAL and not base.objs


def _accumulates(ip: Interpreter, node: ast.AugAssign, frame: Frame) -> bool:
    """Whether a name is assigned nowhere in the running batch loop but by accumulation."""
    if frame.forward or not isinstance(node.target, ast.Name):
        return False
    for loop in reversed(frame.loops):
        if ip.loop_sources.get(loop):
            return not any(
                isinstance(part, ast.Name) and part.id == node.target.id and isinstance(part.ctx, ast.Store)
                for statement in ast.walk(loop)
                if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.For))
                for part in ast.walk(statement.targets[0] if isinstance(statement, ast.Assign) else statement.target)
            )
    return False


def _extend(ip: Interpreter, node: ast.AugAssign, old: Value, new: Value, frame: Frame) -> None:
    """`container += values`."""
    element = loops.element(ip, new, frame)
    for cell in old.objs:
        if expressions.has_sample(new) and stores.outlives_batch(ip, cell, frame):
            element = loops.element(ip, sinks.gather(ip, node.value, new, frame), frame)
        ip.heap.add(cell, element)
    stores.store(ip, node.target, replace(old, items=None, params=old.params | new.params), node, frame)


def _as_load(ip: Interpreter, target: ast.expr) -> ast.expr:
    """The target as an expression that is read; its parts keep their identity and their recorded values."""
    key = target
    if key not in ip.loads:
        if isinstance(target, ast.Name):
            load: ast.expr = ast.copy_location(ast.Name(target.id, ast.Load()), target)
        elif isinstance(target, ast.Attribute):
            load = ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
        else:
            assert isinstance(target, ast.Subscript)
            load = ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
        ip.loads[key] = load
        ip.names.adopt(load, target)
        ip.parents[load] = ip.parents[target]
    return ip.loads[key]
