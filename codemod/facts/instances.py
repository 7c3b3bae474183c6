"""Instances of classes of the program: objects, dataclasses, named tuples."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import calls, externals, implied, owners
from .joins import join_all
from .replacing import replace
from .values import EMPTY, FunctionRef, Role, Value, union

if TYPE_CHECKING:
    from .arguments import Arguments
    from .frame import Frame
    from .interpreter import Interpreter


def construct(ip: Interpreter, cls: ast.ClassDef, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """An instance of a class of the program."""
    roles = externals.class_roles(ip, cls)
    if roles:
        ip.note_way(frame, ip.made.making_defs)
    if ip.classes.descends(cls, "typing.NamedTuple"):
        return named(_fields(cls), arguments)
    cell = ip.allocate(node, frame, cls.name, cls=cls)
    for role in roles:
        ip.heap.mark(cell, role)
    taint = (
        join_all(Value(params=v.params) for _, v in arguments.all).params if Role.OPTIMIZER in roles else frozenset()
    )
    value = Value(objs=frozenset({cell}), roles=frozenset(roles), params=taint)
    if Role.LOADER in roles:
        ip.made.loaders[node] = None
        value = replace(value, sources=frozenset({node}))
    initialise = ip.classes.method(cls, "__init__")
    if initialise is not None:
        calls.invoke(ip, FunctionRef(initialise, cell), arguments, node, frame, forward=False)
    else:
        externals.initialise_base(ip, cell, arguments, frame)
        _dataclass_fields(ip, cls, cell, arguments)
        _defaults(ip, cls, cell, frame)
        ready = ip.classes.method(cls, "__post_init__")
        if ready is not None:
            calls.enter(ip, FunctionRef(ready, cell), {}, ip.closure(ready), node, frame)
    if Role.OPTIMIZER in roles:
        owners.own_parameters(ip, node, arguments, frame, cls.name, frozenset({cell}))
    return value


def _fields(cls: ast.ClassDef) -> list[str]:
    return [s.target.id for s in cls.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]


def names_in(given: Value) -> list[str]:
    """Field names of a named tuple, given as one string or as several."""
    if isinstance(given.const, str):
        return given.const.replace(",", " ").split()
    return [item.const for item in given.items or () if isinstance(item.const, str)]


def named(names: list[str], arguments: Arguments) -> Value:
    """An instance of a named tuple."""
    given = {name: value for name, (_, value) in zip(names, arguments.positional)}
    given |= {name: value for name, (_, value) in arguments.keywords.items()}
    items = tuple(given.get(name, arguments.star or EMPTY) for name in names)
    return Value(items=items, names=tuple(names), params=union(v.params for v in items))


def _defaults(ip: Interpreter, cls: ast.ClassDef, cell: int, frame: Frame) -> None:
    """What fields that no argument gives hold: `model: nn.Module = field(default_factory=Net)`."""
    for item in reversed(ip.classes.lineage(cls)):
        for statement in item.body if isinstance(item, ast.ClassDef) else ():
            if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                continue
            name, call = statement.target.id, statement.value
            if name in ip.heap[cell].attrs or not isinstance(call, ast.Call):
                continue
            if ip.names.qualified(call.func) == "dataclasses.field":
                for option in call.keywords:
                    if option.arg == "default_factory":
                        factory = ip.current.get(option.value, EMPTY)
                        ip.heap.store(cell, name, implied.made_by_factory(ip, factory, call, cell, frame))
                    elif option.arg == "default":
                        ip.heap.store(cell, name, ip.current.get(option.value, EMPTY))


def _dataclass_fields(ip: Interpreter, cls: ast.ClassDef, cell: int, arguments: Arguments) -> None:
    """Fields of a class without `__init__` (a dataclass, a named tuple) are its arguments."""
    names = _fields(cls)
    for name, (_, value) in zip(names, arguments.positional):
        ip.heap.store(cell, name, value)
    for name, (_, value) in arguments.keywords.items():
        if name in names:
            ip.heap.store(cell, name, value)
