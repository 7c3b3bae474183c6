"""Whole models that a program pickles and loads again: `torch.save(model, f)`, `model = torch.load(f)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .joins import join_all
from .values import EMPTY, Role, Value

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

SAVES = ("torch.save", "torch.serialization.save")
LOADS = ("torch.load", "torch.serialization.load")


def save(ip: Interpreter, arguments: Arguments, node: ast.Call) -> None:
    """Remember what is saved: a whole model, or anything else."""
    value = arguments.get(0, "obj")
    found = value if value.has(Role.MODEL) and value.items is None and not value.part else EMPTY
    if ip.made.saved.get(node) != found.objs:
        ip.made.saved[node] = found.objs
        ip.sites.changed = True


def load(ip: Interpreter, node: ast.Call, frame: Frame) -> Value | None:
    """What is loaded: a copy of a model, if the program saves nothing but whole models; else `None`."""
    from .making import deep_copy

    if not ip.made.saved or not all(ip.made.saved.values()):
        return None
    roles = frozenset({Role.MODEL})
    return join_all(deep_copy(ip, Value(objs=cells, roles=roles), node, frame) for cells in ip.made.saved.values())
