"""What runs when, and under which conditions; no rule by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._source import FUNCTIONS, ancestors, function_of, is_runtime_call, position, runtime_calls

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
    function = function_of(facts, node)
    if function is function_of(facts, entry):
        return position(node) < position(entry)
    return isinstance(function, ast.Module)


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
