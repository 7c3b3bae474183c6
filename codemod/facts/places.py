"""Where a node stands in its file."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from ..trees import children

Parents = Mapping[ast.AST, ast.AST]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)  # what they hold does not run where they stand
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # their variables are their own


def statement_of(parents: Parents, node: ast.AST) -> ast.stmt:
    """The statement that holds a node, or that it is."""
    while not isinstance(node, ast.stmt):
        node = parents[node]
    return node


def last_name(node: ast.expr) -> str:
    """The last part of a dotted name, "" for another expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def dotted(node: ast.AST) -> str | None:
    """The text of a name or of attributes of one (`self.optimizer`), `None` for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None


def passed(call: ast.Call) -> list[ast.expr]:
    """All that a call is given, by position and by name."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def stands_in(parents: Parents, node: ast.AST | None, outer: ast.AST) -> bool:
    """Whether a node stands inside another one, or is it."""
    while node is not None and node is not outer:
        node = parents.get(node)
    return node is outer


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and its parts, without those of definitions and comprehensions in it, whose names are their own."""
    if not isinstance(node, (*DEFINITIONS, *COMPREHENSIONS)):
        yield node
        for child in children(node):
            yield from inside(child)
