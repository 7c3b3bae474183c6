"""What runs while a sample is fetched, in a worker process or for the rows of one process; no rule by itself.

The other processes fetch other samples at other times, so nothing in there can wait for them, and a file that belongs
to a sample is written by whoever fetches it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..trees import children
from ._source import FUNCTIONS, ancestors, class_of

if TYPE_CHECKING:
    from ..facts.model import Facts

SETS = ("torch.utils.data.", "torchvision.datasets.", "torch_geometric.data.")
METHODS = ("__getitem__", "__getitems__")


class Fetched:
    """Tells which functions only run to fetch samples: of data sets, and what nothing but those calls."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._roots = {item for file in facts.program for item in roots(file)}
        self._inside: set[ast.AST] | None = None

    def holds(self, node: ast.AST) -> bool:
        """Whether a node runs in a fetch only."""
        if not self._roots:
            return False
        if self._inside is None:
            self._inside = self._closure()
        return any(item in self._inside for item in ancestors(self._facts, node))

    def _closure(self) -> set[ast.AST]:
        found, todo = set(self._roots), list(self._roots)
        while todo:
            for called in self._called(todo.pop()):
                if called not in found:
                    found.add(called)
                    todo.append(called)
        while True:
            entered = {item for file in self._facts.program for item in self._entered(file, found)} - self._roots
            if not entered & found:
                return found
            found -= entered

    def _called(self, function: ast.AST) -> Iterator[ast.AST]:
        """Functions of the program that a function calls."""
        yield from (item for node in ast.walk(function) for item in callees(self._facts, node))

    def _entered(self, file: Facts, found: set[ast.AST]) -> Iterator[ast.AST]:
        """What is called from outside of these functions."""
        todo: list[ast.AST] = [file.tree]
        while todo:
            node = todo.pop()
            if node not in found:
                yield from callees(file, node)
                todo.extend(children(node))


def of_program(facts: Facts) -> Fetched:
    """That of the program of a file, worked out once."""
    return facts.worked_out(Fetched)


def roots(facts: Facts) -> Iterator[ast.AST]:
    """The methods by which the file's data sets give samples."""
    for node in facts.nodes:
        if isinstance(node, ast.ClassDef) and is_set(facts, node):
            yield from (item for item in node.body if isinstance(item, FUNCTIONS) and item.name in METHODS)


def is_set(facts: Facts, node: ast.ClassDef) -> bool:
    """Whether a class derives from a data set of a library, directly or through classes of the program."""
    todo, seen = [node], {node}
    while todo:
        for base in todo.pop().bases:
            if (facts.names.qualified(base) or "").startswith(SETS):
                return True
            found = facts.value(base).classes - seen
            seen |= found
            todo.extend(found)
    return False


def callees(facts: Facts, node: ast.AST) -> Iterator[ast.AST]:
    """The functions of the program that a call may enter."""
    if not isinstance(node, ast.Call):
        return
    yield from (item.node for item in facts.value(node.func).defs)
    home = class_of(facts, node)
    if home is not None and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        name = node.func.attr
        yield from (item for item in home.body if isinstance(item, FUNCTIONS) and item.name == name)
