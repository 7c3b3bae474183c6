"""Which statements make a loss out of a forward; no rule by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.values import Role
from ._source import dotted, function_of, has_role, index_in, is_runtime_call, position

if TYPE_CHECKING:
    from ..facts.model import Facts


def definitions(facts: Facts, backward: ast.Call, start: ast.AST) -> list[ast.stmt]:
    """The statements between a forward and a backward call that last assign what the backward is called on."""
    loss = backward.func.value if isinstance(backward.func, ast.Attribute) else None
    if loss is None or facts.names.qualified(backward.func) is not None:
        loss = backward.args[0] if backward.args else None
    if loss is None:
        return []
    return [found for name in read_in(loss) if (found := last_assignment(facts, name, start, backward)) is not None]


def returned(facts: Facts, forward: ast.Call) -> list[ast.stmt]:
    """The statements that make what a function returns out of a forward in it."""
    found: list[ast.stmt] = []
    function = function_of(facts, forward)
    for node in ast.walk(function):
        if not isinstance(node, ast.Return) or node.value is None or function_of(facts, node) is not function:
            continue
        if position(node) < position(facts.statement(forward)):
            continue
        if not isinstance(node.value, (ast.Name, ast.Attribute, ast.Tuple)):
            found.append(node)
            continue
        for name in read_in(node.value):
            assignment = last_assignment(facts, name, forward, node)
            if assignment is not None:
                found.append(assignment)
    return found


def measured(facts: Facts, forward: ast.Call) -> list[ast.stmt]:
    """The statements of an evaluation that assign a loss of what a forward gave, in the block of the forward."""
    statement = facts.statement(forward)
    if not isinstance(statement, ast.Assign):
        return []
    outputs = {dotted(item) for target in statement.targets for item in ast.walk(target)} - {None}
    block = facts.block(statement)
    return [
        item
        for item in block[index_in(block, statement) + 1 :]
        if isinstance(item, ast.Assign) and is_loss(facts, item.value) and outputs.intersection(read_in(item.value))
    ]


def is_loss(facts: Facts, node: ast.expr) -> bool:
    """Whether an expression is the call of a loss, bare or reduced, or reduces what a forward returned."""
    if is_runtime_call(facts, node, "mean", "sum") and isinstance(node, ast.Call) and node.args:
        node = node.args[0]
        if dotted(node) is not None:
            return True
    if not isinstance(node, ast.Call):
        return False
    name = facts.names.qualified(node.func) or ""
    function = name.startswith("torch.nn.functional.") and name.endswith(("loss", "cross_entropy", "kl_div"))
    return function or has_role(facts, node.func, Role.CRITERION)


def read_in(node: ast.expr) -> list[str]:
    """Source texts of the names and attributes that an expression reads."""
    return list(dict.fromkeys(text for item in ast.walk(node) if (text := dotted(item)) is not None))


def last_assignment(facts: Facts, text: str, start: ast.AST, end: ast.AST) -> ast.stmt | None:
    """The last statement from `start` (or the statement that holds it) before `end` that assigns to a text."""
    begin, stop = position(facts.statement(start)), position(end)
    found = [item for item in assignments(function_of(facts, end), text) if begin <= position(item) < stop]
    return max(found, key=position, default=None)


def assignments(function: ast.AST, text: str) -> Iterator[ast.stmt]:
    """Simple statements of a function that assign to a text."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            targets: list[ast.expr] = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        else:
            continue
        if any(dotted(item) == text for target in targets for item in ast.walk(target)):
            yield node
