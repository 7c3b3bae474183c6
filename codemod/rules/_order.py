"""What runs when, and under which conditions; no rule by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._settle import Training
from ._source import FUNCTIONS, ancestors, contains, function_of, is_runtime_call, position, runtime_calls

if TYPE_CHECKING:
    from ..facts.model import Facts

FILES = ("os.path.exists", "os.path.isfile", "os.path.isdir", "os.path.lexists", "os.listdir", "os.access", "glob.glob")
FILE_METHODS = ("exists", "is_file", "is_dir")


def before_start(facts: Facts, node: ast.AST) -> bool:
    """Whether a node runs before the runtime is started, as far as the source tells."""
    inits = runtime_calls(facts, "init")
    entry: ast.AST | None = inits[0] if inits else facts.entry_statement
    if entry is None:
        return False
    function, start = function_of(facts, node), function_of(facts, entry)
    if function is start:
        return position(node) < position(entry)
    if not isinstance(function, ast.Module):
        return False
    name = getattr(start, "name", None)
    entered = [item for item in facts.nodes if isinstance(item, ast.Name) and item.id == name]
    outside = [item for item in entered if isinstance(function_of(facts, item), ast.Module)]
    return not outside or position(node) < position(outside[0])


def conditions(facts: Facts, node: ast.AST) -> Iterator[ast.If | ast.While | ast.IfExp]:
    """The conditions that decide whether a node runs, within its function, innermost first."""
    child = node
    for item in ancestors(facts, node):
        if isinstance(item, FUNCTIONS):
            return
        if isinstance(item, (ast.If, ast.While, ast.IfExp)) and child is not item.test:
            yield item
        child = item


def asks_for_files(facts: Facts, test: ast.expr) -> bool:
    """Whether a condition reads the file system, where another process may be faster."""
    for node in ast.walk(test):
        if isinstance(node, ast.Call):
            if facts.names.qualified(node.func) in FILES:
                return True
            if isinstance(node.func, ast.Attribute) and node.func.attr in FILE_METHODS and not node.args:
                return True
    return False


def on_main_only(facts: Facts, node: ast.AST) -> bool:
    """Whether a node is guarded: under a condition on the process, or given to the main process to call."""
    guarded = any(
        is_runtime_call(facts, inner, "is_main", "rank")
        for item in conditions(facts, node)
        for inner in ast.walk(item.test)
    )
    return guarded or any(is_runtime_call(facts, item, "on_main") for item in ancestors(facts, node))


def depends_on_files(facts: Facts, node: ast.AST) -> bool:
    """Whether a condition on the file system decides over a node."""
    return any(asks_for_files(facts, item.test) for item in conditions(facts, node))


def shared_condition(facts: Facts, node: ast.AST) -> ast.If | None:
    """The outermost `if` on the file system around a node, if all processes can take it one after the other.

    `if not os.path.exists(path):` with what makes the file, and what reads it otherwise, is such an `if`: the main
    process goes first and makes it, the others find it complete.
    """
    found = [item for item in conditions(facts, node) if isinstance(item, ast.If) and asks_for_files(facts, item.test)]
    if (
        not found
        or is_alternative(facts, found[-1])
        or facts.worked_out(Training).runs(found[-1])
        or before_start(facts, found[-1])
    ):
        return None
    return found[-1]


def is_alternative(facts: Facts, statement: ast.If) -> bool:
    """Whether an `if` is the `elif` of another."""
    parent = facts.parents[statement]
    return isinstance(parent, ast.If) and len(parent.orelse) == 1 and parent.orelse[0] is statement


def exclusive(facts: Facts, one: ast.AST, other: ast.AST) -> bool:
    """Whether two nodes stand in different branches of a condition, so that one iteration, or one run, has either."""
    for item in ancestors(facts, one):
        if not isinstance(item, (ast.If, ast.Match)):
            continue
        branches = [item.body, item.orelse] if isinstance(item, ast.If) else [case.body for case in item.cases]
        mine = [branch for branch in branches if contains(branch, [one])]
        if mine and any(contains(branch, [other]) for branch in branches if branch is not mine[0]):
            return True
    return False
