"""Models in DistributedDataParallel whose buffers the first process sends in every forward; no check by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.collectives import WRAPPERS
from ..facts.places import passed
from ..rules._source import calls, keyword_value

if TYPE_CHECKING:
    from ..facts.model import Facts

DATA_PARALLEL = WRAPPERS[:2]
WITH_BUFFERS = ("torchvision.models.",)


def sent(facts: Facts) -> frozenset[int]:
    """The wrapped models with buffers, such as those of batch normalisation, that their wrapper keeps equal."""
    buffered = {cell for file in facts.program for call in file.nodes for cell in made(file, call)}
    found: set[int] = set()
    for file in facts.program:
        for call in calls(file, *DATA_PARALLEL):
            keeps = keyword_value(call, "broadcast_buffers")
            off = isinstance(keeps, ast.Constant) and keeps.value is False
            objects = file.value(passed(call)[0]).objs if passed(call) else frozenset[int]()
            if not off and objects and objects <= buffered:
                found |= objects
    return frozenset(found)


def made(facts: Facts, node: ast.AST) -> Iterator[int]:
    """The models with buffers that a node makes."""
    if not isinstance(node, ast.Call):
        return
    name = facts.names.qualified(node.func) or ""
    classes = facts.value(node.func).classes
    if name.startswith(WITH_BUFFERS) or any(has_buffers(facts, item, frozenset()) for item in classes):
        yield from facts.value(node).objs


def has_buffers(facts: Facts, node: ast.ClassDef, seen: frozenset[ast.AST]) -> bool:
    """Whether a class, or one that it makes objects of, has buffers."""
    home = next((file for file in facts.program if file.holds(node)), None)
    if home is None or node in seen:
        return False
    for part in ast.walk(node):
        if not isinstance(part, ast.Call):
            continue
        name = home.names.qualified(part.func) or ""
        if ".BatchNorm" in name or (isinstance(part.func, ast.Attribute) and part.func.attr == "register_buffer"):
            return True
        if any(has_buffers(facts, item, seen | {node}) for item in home.value(part.func).classes):
            return True
    return False
