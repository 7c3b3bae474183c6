"""Models, optimizers and other objects that calls of libraries make, and copies of models."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from . import losses
from .values import Role, Value

if TYPE_CHECKING:
    from .calls import Arguments
    from .interpreter import Frame, Interpreter


def made_by(ip: Interpreter, ref: str, node: ast.Call, frame: Frame, role: Role) -> Value:
    """An object that a call of a library makes, with the role that it has in a training script."""
    ip.note_way(frame, ip.made.making_defs)  # each call of these functions makes others
    cell = ip.allocate(node, frame, "object", ref=ref)
    ip.heap.mark(cell, role)
    return Value(objs=frozenset({cell}), roles=frozenset({role}))


def layer(ip: Interpreter, ref: str, last: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """A layer, a loss, or a container of modules."""
    from . import stores

    role = Role.CRITERION if losses.module_loss(ref) else Role.MODEL
    value = made_by(ip, ref, node, frame, role)
    (cell,) = value.objs
    for _, held in arguments.all:
        mapped = [ip.heap[index] for index in held.objs if not held.roles and ip.heap[index].is_dict]
        for name, member in [item for mapping in mapped for item in mapping.attrs.items()]:
            ip.heap.store(cell, name, member)
        for mapping in mapped:
            stores.adopt(ip, cell, held)
            ip.heap.add(cell, mapping.element)
        if held.objs and not held.part and (held.has(Role.MODEL) or held.element is not None or held.items is not None):
            stores.adopt(ip, cell, held)
            members = held.items or ((held.element,) if held.element is not None else (held,))
            for member in members:
                ip.heap.add(cell, member)
    return value


def deep_copy(ip: Interpreter, value: Value, node: ast.Call, frame: Frame) -> Value:
    """A deep copy: of a model, another model that no optimizer owns."""
    if not value.has(Role.MODEL):
        return replace(value, is_param=False)
    cells = []
    for original in value.objs:
        held = ip.heap[original]
        cell = ip.allocate(node, frame, f"copy{original}", cls=held.cls, ref=held.ref)
        ip.heap.mark(cell, Role.MODEL)
        for name, kept in held.attrs.items():
            ip.heap.store(cell, name, kept)
        cells.append(cell)
    return Value(objs=frozenset(cells), roles=value.roles, wrapped=value.wrapped)


def averaged(ip: Interpreter, model: Value, node: ast.Call, frame: Frame) -> Value:
    """`AveragedModel(model)`: a copy that no optimizer owns, held under `module`."""
    ip.note_way(frame, ip.made.making_defs)  # each call of these functions makes others
    value = deep_copy(ip, model, node, frame)
    for cell in value.objs:
        ip.heap.store(cell, "module", value)
        ip.made.averages.add(cell)
    return value
