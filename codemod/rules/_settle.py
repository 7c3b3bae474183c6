"""Where a model is settled: what runs it, and what still moves or initialises it; no rule by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..trees import children
from ._source import FUNCTIONS, Definition, index_in

if TYPE_CHECKING:
    from ..facts.model import Facts

MOVES = frozenset(
    [
        "to",
        "cuda",
        "cpu",
        "half",
        "double",
        "float",
        "bfloat16",
        "type",
        "apply",
        "requires_grad_",
        "share_memory",
        "to_empty",
        "fill_",
        "copy_",
        "uniform_",
        "normal_",
        "zero_",
        "mul_",
        "add_",
        "compile",
    ]
)


def executed(statement: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run with a statement: bodies of functions and classes that it defines are left out."""
    if isinstance(statement, Definition):
        return
    yield statement
    for child in children(statement):
        if not isinstance(child, FUNCTIONS):
            yield from executed(child)


class Training:
    """Tells which statements run a model or train, directly or through functions of the program."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._nodes: set[int] = set()
        for file in facts.program:
            self._nodes.update(id(forward.call) for forward in file.forwards)
            for step in file.steps:
                self._nodes.update(id(call) for call in (*step.backwards, *step.optimizer_steps))
        self._known: dict[int, bool] = {}
        self._tried: set[int] = set()  # functions that the running search came to

    def runs(self, node: ast.AST) -> bool:
        """Whether a statement reaches a forward, a backward or an optimizer step."""
        return any(self._is_run(inner) for inner in executed(node))

    def _is_run(self, node: ast.AST) -> bool:
        if id(node) in self._nodes:
            return True
        return isinstance(node, ast.Call) and any(self.enters(item.node) for item in self._facts.value(node.func).defs)

    def enters(self, function: ast.AST) -> bool:
        """Whether the body of a function or class does."""
        if id(function) in self._known or id(function) in self._tried:
            return self._known.get(id(function), False)
        first = not self._tried
        self._tried.add(id(function))
        found = any(self.runs(child) for child in ast.iter_child_nodes(function))
        if found:
            self._known[id(function)] = True
        elif first:  # nothing that it came to does: functions that call each other are known together
            self._known.update(dict.fromkeys(self._tried, False))
        if first:
            self._tried.clear()
        return found


def last_settling(
    facts: Facts, training: Training, block: list[ast.stmt], index: int, models: list[str], optimizers: list[str]
) -> int:
    """The index of the last statement from `index` on that settles a model, before anything runs it.

    What an optimizer is given later settles it too: `optimizer.add_param_group(…)`.
    """
    last = index
    for statement in block[index + 1 :]:
        if training.runs(statement) or isinstance(statement, ast.Return) or hands_over(facts, statement, models):
            break
        if settles(facts, statement, models) or grows(facts, statement, optimizers):
            last = index_in(block, statement)
    return last


def settles(facts: Facts, statement: ast.stmt, models: list[str]) -> bool:
    """Whether a statement moves a model, replaces it, or writes its parameters."""
    return any(belongs(facts, part, models) for node in executed(statement) for part in changed_by(facts, node))


def grows(facts: Facts, statement: ast.stmt, optimizers: list[str]) -> bool:
    """Whether a statement gives an optimizer more parameters."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "add_param_group" and facts.text(node.value) in optimizers
        for node in executed(statement)
    )


def changed_by(facts: Facts, node: ast.AST) -> list[ast.expr]:
    """The expressions that a node moves, initialises, assigns, or walks over to do so."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if (facts.names.qualified(node.func) or "").startswith("torch.nn.init."):
            return node.args
        return [node.func.value] if node.func.attr in MOVES else []
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and isinstance(node.iter.func, ast.Attribute):
        return [node.iter.func.value]
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
        return [node]
    return []


def belongs(facts: Facts, node: ast.expr, models: list[str]) -> bool:
    """Whether an expression is one of the models, or an attribute below one."""
    text = facts.text(node)
    return any(text == model or text.startswith((f"{model}.", f"{model}[")) for model in models)


def hands_over(facts: Facts, statement: ast.stmt, models: list[str]) -> bool:
    """Whether a statement gives a model to a function that may run it (a summary, a profiler, code of other files)."""
    for node in executed(statement):
        if not isinstance(node, ast.Call) or (facts.names.qualified(node.func) or "").startswith(
            ("builtins.", "torch.")
        ):
            continue
        value = facts.value(node.func)
        if not value.defs and not value.classes and any(facts.text(item) in models for item in node.args):
            return True
    return False
