"""Modules that hold modules: what `nn.Sequential`, `nn.ModuleList` and `nn.ModuleDict` are given, and what they run."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from . import stores
from .joins import join_all
from .replacing import replace
from .values import EMPTY, Role, Value

if TYPE_CHECKING:
    from .arguments import Arguments
    from .frame import Frame
    from .interpreter import Interpreter

_DEPTH = 8  # of containers in containers


def fill(ip: Interpreter, cell: int, arguments: Arguments) -> None:
    """Keep the modules that a container is built of: given one by one, in a list or dict, or by a generator."""
    members: list[Value] = []
    for _, held in arguments.all:
        mapped = [ip.heap[index] for index in held.objs if not held.roles and ip.heap[index].is_dict]
        for mapping in mapped:
            for name, member in mapping.attrs.items():
                ip.heap.store(cell, name, member)
                members.append(member)
            stores.adopt(ip, cell, held)
            ip.heap.add(cell, mapping.element)
        found = _members(held)
        if found:
            stores.adopt(ip, cell, held)
        for member in found:
            ip.heap.add(cell, member)
        members += found
    ip.heap.sequence(cell, tuple(members))


def _members(held: Value) -> list[Value]:
    """The modules in an argument; what one of several comes from, is there at least twice."""
    if held.part:
        return []
    if held.items is not None:
        return list(held.items) if held.objs else []
    if held.element is not None:
        known = held.objs or held.element.has(Role.MODEL)
        return [held.element, held.element] if known else []
    return [held] if held.objs and held.has(Role.MODEL) else []


def adopt(ip: Interpreter, base: Value, value: Value) -> None:
    """A module becomes a part of others under a name that is not known: `setattr(self, f"conv{i}", conv)`."""
    if not value.has(Role.MODEL):
        return
    for cell in base.objs:
        ip.heap.add(cell, value)
        stores.adopt(ip, cell, value)


def parts(ip: Interpreter, base: Value) -> Value:
    """The modules that objects hold under any name."""
    held = [ip.heap[cell] for cell in base.objs if Role.MODEL in ip.heap[cell].roles]
    found = join_all(value for cell in held for value in (*cell.attrs.values(), cell.element) if value.has(Role.MODEL))
    return replace(found, part=False) if found.objs else EMPTY


def run(ip: Interpreter, cell: int, arguments: Arguments, node: ast.Call, frame: Frame) -> Value | None:
    """What a `Sequential` makes of its input, its modules one after another; `None` if the program defines none."""
    from . import models

    if not _is_sequence(ip, cell) or not arguments.positional or not _defines(ip, cell, _DEPTH):
        return None
    forward, frame.forward = frame.forward, frame.forward or models.is_like_prepared(ip, cell)
    operand, value = arguments.positional[0]
    for member in _in_turn(ip, cell):
        given = copy.copy(arguments)
        given.positional, given.keywords, given.star, given.unpacked = [(operand, value)], {}, None, []
        given.rest = None
        value = join_all(models.run(ip, part, given, node, frame) for part in sorted(member.objs))
    frame.forward = forward
    return value


def _is_sequence(ip: Interpreter, cell: int) -> bool:
    held = ip.heap[cell]
    if held.cls is not None:
        return ip.classes.descends(held.cls, "torch.nn.Sequential", "torch.nn.modules.container.Sequential")
    return (held.ref or "").startswith("torch.nn.") and (held.ref or "").endswith(".Sequential")


def _in_turn(ip: Interpreter, cell: int) -> list[Value]:
    """The modules in their order; those that came later (`append`, `add_module`) after the others."""
    held = ip.heap[cell]
    first = [value for value in held.sequence if value.objs]
    known = {part for value in first for part in value.objs}
    later = [value for value in (*held.attrs.values(), held.element) if value.has(Role.MODEL)]
    rest = [part for value in later for part in sorted(value.objs) if part not in known]
    return [*first, *(Value(objs=frozenset({part})) for part in dict.fromkeys(rest))]


def _defines(ip: Interpreter, cell: int, depth: int) -> bool:
    """Whether a container holds a module whose forward is in the program."""
    for part in {part for value in _in_turn(ip, cell) for part in value.objs} if depth else ():
        cls = ip.heap[part].cls
        if cls is not None and ip.classes.runs(cls) is not None:
            return True
        if _is_sequence(ip, part) and _defines(ip, part, depth - 1):
            return True
    return False


__all__ = ["adopt", "fill", "parts", "run"]
