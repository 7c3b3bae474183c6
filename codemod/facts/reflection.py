"""Built-in functions that get, set and list attributes and variables by name."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from . import attributes, containers, modules
from .joins import join, join_all
from .values import EMPTY, HOST, Value

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

ANY = ".*"
PLACES = re.compile(r"%[sd]|\{[^}]*\}")


def getattr_of(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    base, name = arguments.get(0, "object"), arguments.get(1, "name").const
    if isinstance(name, str):
        return join(attributes.get(ip, base, name, node, frame), arguments.get(2, "default"))
    if base.ref is not None:
        return Value(ref="|".join(f"{ref}.<dynamic>" for ref in base.ref.split("|")))
    held = [module for module in (modules.of_cell(ip, cell) for cell in base.objs) if module is not None]
    named = _named_like(ip, base, node)
    if named:
        return join_all([*(attributes.get(ip, base, item, node, frame) for item in named), arguments.get(2, "default")])
    parts = containers.parts(ip, base)
    if parts != EMPTY:
        return parts
    return join_all(modules.any_of(ip, module) for module in held) if held else HOST


def _named_like(ip: Interpreter, base: Value, node: ast.Call) -> list[str]:
    """The attributes and methods of objects that a name put together of texts may mean: `f"on_{event}"`."""
    pattern = _pattern(node.args[1]) if len(node.args) > 1 else ANY
    cells = [ip.heap[cell] for cell in base.objs]
    classes = [cls for cell in cells if cell.cls is not None for cls in ip.classes.lineage(cell.cls)]
    methods = {item.name for cls in classes if isinstance(cls, ast.ClassDef) for item in cls.body
               if isinstance(item, ast.FunctionDef) and not item.name.startswith("__")}  # fmt: skip
    if pattern == ANY:  # what is called so somewhere: `{"train": 1, "test": 2}[phase]`
        parent = ip.parents.get(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        return sorted(methods & _texts(ip)) if called and methods else []
    names = methods.union(*(cell.attrs for cell in cells))
    return sorted(name for name in names if re.fullmatch(pattern, name))


def _texts(ip: Interpreter) -> set[str]:
    """All texts of the program."""
    nodes = (node for module in ip.program.modules for node in module.nodes if isinstance(node, ast.Constant))
    return {node.value for node in nodes if isinstance(node.value, str)}


def _pattern(node: ast.expr) -> str:
    """What texts an expression may give, as a regular expression."""
    if isinstance(node, ast.Constant):
        return re.escape(str(node.value))
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_pattern, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _pattern(node.left) + _pattern(node.right)
    left = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        left = node.func.value
    if isinstance(left, ast.Constant) and isinstance(left.value, str):
        return ANY.join(map(re.escape, PLACES.split(left.value)))
    return ANY


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
