"""Built-in functions that get, set and list attributes and variables by name."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import attributes, containers, modules
from .values import EMPTY, HOST, Value, join, join_all

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter


def getattr_of(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    base, name = arguments.get(0, "object"), arguments.get(1, "name").const
    if isinstance(name, str):
        return join(attributes.get(ip, base, name, node, frame), arguments.get(2, "default"))
    if base.ref is not None:
        return Value(ref="|".join(f"{ref}.<dynamic>" for ref in base.ref.split("|")))
    held = [module for module in (modules.of_cell(ip, cell) for cell in base.objs) if module is not None]
    parts = containers.parts(ip, base)
    if parts != EMPTY:
        return parts
    return join_all(modules.any_of(ip, module) for module in held) if held else HOST


def setattr_of(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    base, name, value = arguments.get(0, "object"), arguments.get(1, "name").const, arguments.get(2, "value")
    if not isinstance(name, str):
        containers.adopt(ip, base, value)
    members = [(name, value)] if isinstance(name, str) else _members(ip, node)
    for cell in base.objs:
        for member, value in members:
            ip.heap.store(cell, member, value)
    return HOST


def _members(ip: Interpreter, node: ast.Call) -> list[tuple[str, Value]]:
    """What `for name, value in kept.items(): setattr(obj, name, value)` sets."""
    names = [getattr(item, "id", None) for item in node.args[1:]]
    loop = ip.parents.get(node)
    while loop is not None:
        pair = loop.target.elts if isinstance(loop, ast.For) and isinstance(loop.target, ast.Tuple) else []
        if isinstance(loop, ast.For) and [getattr(item, "id", "") for item in pair] == names:
            return [member for cell in _items_of(ip, loop.iter) for member in ip.heap[cell].attrs.items()]
        loop = ip.parents.get(loop)
    return []


def _items_of(ip: Interpreter, node: ast.expr) -> frozenset[int]:
    """The dicts of `kept` in `kept.items()`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "items"):
        return frozenset()
    return ip.current.get(node.func.value, EMPTY).objs


def vars_of(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """`vars(obj)`: the attributes of an object as a dict."""
    return attributes.members(ip, arguments.get(0, "object")) or HOST


def locals_of(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    cell = ip.allocate(node, frame, "kwargs")
    for name, value in frame.env.items():
        ip.heap.store(cell, name, value)
        ip.heap.add(cell, value)
    return Value(objs=frozenset({cell}))


def globals_of(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """`globals()[name]`: what the file may give under a name."""
    return Value(element=modules.any_of(ip, ip.names.module(node)))
