"""What a process alone can know: the time, a signal that it was sent; no rule by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._source import FUNCTIONS, RUNTIME, bindings, calls, function_of

if TYPE_CHECKING:
    from ..facts.model import Facts

CLOCKS = (
    "time.time",
    "time.time_ns",
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.perf_counter_ns",
    "time.process_time",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "timeit.default_timer",
)
Function = (ast.FunctionDef, ast.AsyncFunctionDef)


class Apart:
    """Which expressions of a file may differ between processes since each has a clock and gets signals of its own.

    Names, attributes, properties and functions of the program carry what they were made from; a file of the program is
    looked through for attributes and functions that another file uses.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.handlers = {id(item) for file in facts.program for item in _handlers(file)}
        self.used = bool(self.handlers) or any(file.calls.get(name) for file in facts.program for name in CLOCKS)
        self.attributes: set[str] = set()
        self.functions: set[int] = set()
        self.flags = {(id(file), name) for file in facts.program for name in _flags(file, self.handlers)}
        while self.used and self._grow():
            pass

    def differs(self, node: ast.expr) -> bool:
        """Whether an expression may be another one on another process."""
        return any(self._is_apart(self.facts, part, set()) for part in _parts(self.facts, node))

    def _grow(self) -> bool:
        """Attributes and functions that carry what is known to differ; whether there are new ones."""
        before = len(self.attributes) + len(self.functions)
        for file in self.facts.program:
            for node in ast.walk(file.tree):
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    fields = [item.attr for item in targets if isinstance(item, ast.Attribute)]
                    handled = id(function_of(file, node)) in self.handlers
                    if fields and (handled or self._carries(file, node.value)):
                        self.attributes.update(fields)
                elif isinstance(node, ast.Return) and node.value is not None and self._carries(file, node.value):
                    function = function_of(file, node)
                    self.functions.add(id(function))
                    if isinstance(function, Function) and _is_property(function):
                        self.attributes.add(function.name)
        return len(self.attributes) + len(self.functions) > before

    def _carries(self, file: Facts, node: ast.expr) -> bool:
        return any(self._is_apart(file, part, set()) for part in _parts(file, node))

    def _is_apart(self, file: Facts, node: ast.AST, seen: set[ast.AST]) -> bool:
        if isinstance(node, ast.Call):
            known = file.names.qualified(node.func) in CLOCKS
            return known or any(id(item.node) in self.functions for item in file.value(node.func).defs)
        if isinstance(node, ast.Attribute):
            return isinstance(node.ctx, ast.Load) and node.attr in self.attributes
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return False
        if (id(file), node.id) in self.flags and isinstance(file.names.scope(node), ast.Module):
            return True
        values = [value for value in bindings(file, node) if value is not None and value not in seen]
        seen.update(values)
        return any(self._is_apart(file, part, seen) for value in values for part in _parts(file, value))


def _parts(facts: Facts, node: ast.expr) -> Iterator[ast.AST]:
    """The nodes of an expression, but for what the processes agreed on already."""
    if isinstance(node, ast.Call) and (facts.names.qualified(node.func) or "").startswith(f"{RUNTIME}."):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr) and not isinstance(child, FUNCTIONS):
            yield from _parts(facts, child)


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(item, ast.Name) and item.id == "property" for item in function.decorator_list)


def _handlers(facts: Facts) -> Iterator[ast.AST]:
    """Functions that a signal calls, whenever it reaches a process."""
    for call in calls(facts, "signal.signal"):
        for argument in call.args[1:2]:
            yield from (item.node for item in facts.value(argument).defs)


def _flags(facts: Facts, handlers: set[int]) -> Iterator[str]:
    """Global names that such a function sets."""
    for node in ast.walk(facts.tree):
        if isinstance(node, ast.Global) and id(function_of(facts, node)) in handlers:
            yield from node.names
