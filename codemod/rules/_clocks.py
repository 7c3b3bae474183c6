"""What a process alone can know: the time, a signal that it was sent; no rule by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._source import FUNCTIONS, RUNTIME, ancestors, calls, function_of

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
    """Which expressions of a program may differ between processes since each has a clock and gets signals of its own.

    Names, attributes, properties and functions of the program carry what they were made from, in whatever file.
    """

    def __init__(self, facts: Facts) -> None:
        program = facts.program
        self.handlers = {id(item) for file in program for item in _handlers(file)}
        self.used = bool(self.handlers) or any(file.calls.get(name) for file in program for name in CLOCKS)
        self.attributes: set[str] = set()
        self.functions: set[int] = set()
        self.names: set[tuple[int, str]] = set()
        self.flags = {(id(file), name) for file in program for name in _flags(file, self.handlers)}
        self.bound: set[tuple[int, str]] = set()
        if self.used:
            stores = [(file, node) for file in program for node in file.nodes if self._matters(file, node)]
            while sum(self._learns(file, node) for file, node in stores):
                pass

    def differs(self, facts: Facts, node: ast.expr) -> bool:
        """Whether an expression of a file may be another one on another process."""
        return any(self._is_apart(facts, part) for part in _parts(facts, node))

    def _matters(self, file: Facts, node: ast.AST) -> bool:
        """Whether a node binds something to a value or returns one; the names that it binds are noted."""
        if isinstance(node, ast.arg):
            self.bound.add((id(file.names.scope(node)), node.arg))
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self.bound.add((id(file.names.scope(node)), node.id))
        return isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)) and node.value is not None

    def _learns(self, file: Facts, node: ast.AST) -> bool:
        """Whether a statement tells of more that carries what differs."""
        assert isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return))
        assert node.value is not None
        before = len(self.attributes) + len(self.functions) + len(self.names)
        function = function_of(file, node)
        carries = self.differs(file, node.value)
        if isinstance(node, ast.Return):
            if carries:
                self.functions.add(id(function))
                if isinstance(function, Function) and _is_property(function):
                    self.attributes.add(function.name)
        else:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if carries or id(function) in self.handlers:
                self.attributes.update(item.attr for item in targets if isinstance(item, ast.Attribute))
            if carries and isinstance(node, ast.Assign):
                scopes = [(file.names.scope(item), item.id) for item in targets if isinstance(item, ast.Name)]
                self.names.update((id(scope), name) for scope, name in scopes)
        return len(self.attributes) + len(self.functions) + len(self.names) > before

    def _is_apart(self, file: Facts, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            known = file.names.qualified(node.func) in CLOCKS
            return known or any(id(item.node) in self.functions for item in file.value(node.func).defs)
        if isinstance(node, ast.Attribute):
            return isinstance(node.ctx, ast.Load) and node.attr in self.attributes
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return False
        if (id(file), node.id) in self.flags and isinstance(file.names.scope(node), ast.Module):
            return True
        return (self._scope_of(file, node), node.id) in self.names

    def _scope_of(self, file: Facts, node: ast.Name) -> int:
        """The innermost function, or the module, that binds a name which is read."""
        inner = file.names.scope(node)
        for scope in (inner, *ancestors(file, inner)):
            if isinstance(scope, (*FUNCTIONS, ast.Module)) and (id(scope), node.id) in self.bound:
                return id(scope)
        return 0


def of_program(facts: Facts) -> Apart:
    """That of the program of a file, worked out once."""
    return facts.worked_out(Apart)


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
    for node in facts.nodes:
        if isinstance(node, ast.Global) and id(function_of(facts, node)) in handlers:
            yield from node.names
