"""Which statements make a loss out of a forward; no rule by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.values import Role
from ._source import dotted, function_of, has_role, index_in, is_runtime_call, position

if TYPE_CHECKING:
    from ..facts.model import Facts

LOSSES = ("loss", "cross_entropy", "binary_cross_entropy_with_logits", "kl_div")


def definitions(facts: Facts, backward: ast.Call, start: ast.AST) -> list[ast.stmt]:
    """The statements between a forward and a backward call that last assign what the backward is called on."""
    loss = backward.func.value if isinstance(backward.func, ast.Attribute) else None
    if loss is None or facts.names.qualified(backward.func) is not None:
        loss = backward.args[0] if backward.args else None
    if loss is None:
        return []
    return [found for name in read_in(loss) if (found := last_assignment(facts, name, start, backward)) is not None]


def measured(facts: Facts, forward: ast.Call) -> list[ast.stmt]:
    """The statements that assign, add up or return a loss of what a forward gave, in the block of the forward.

    Outside autocast a loss of bf16 outputs would be computed in bf16, with two digits.
    """
    statement = facts.statement(forward)
    if not isinstance(statement, ast.Assign):
        return []
    outputs = {dotted(item) for target in statement.targets for item in ast.walk(target)} - {None}
    block = facts.block(statement)
    return [
        item
        for item in block[index_in(block, statement) + 1 :]
        if isinstance(item, (ast.Assign, ast.AugAssign, ast.Return))
        and item.value is not None
        and is_loss(facts, item.value, outputs)
    ]


def is_loss(facts: Facts, node: ast.expr, outputs: set[str | None]) -> bool:
    """Whether an expression makes a loss tensor of outputs: calls a loss, or reduces what a forward returned."""
    calls = [item for item in ast.walk(node) if isinstance(item, ast.Call) and outputs.intersection(read_in(item))]
    if is_runtime_call(facts, node, "mean", "sum") and isinstance(node, ast.Call) and dotted(node.args[0]) is not None:
        return True
    return any(is_loss_function(facts, item.func) for item in calls)


def is_loss_function(facts: Facts, node: ast.expr) -> bool:
    """Whether a callee is a loss: a function or class of torch, or a function of the program that calls one."""
    if is_torch_loss(facts, node):
        return True
    return isinstance(node, (ast.Name, ast.Attribute)) and any(
        isinstance(inner, ast.Call) and is_torch_loss(facts, inner.func)
        for item in facts.value(node).defs
        if item.bound is None
        for inner in ast.walk(item.node)
    )


def is_torch_loss(facts: Facts, node: ast.expr) -> bool:
    """Whether a callee is a loss function of torch, or an object of a loss class."""
    name = facts.names.qualified(node) or ""
    function = name.startswith("torch.nn.functional.") and name.endswith(LOSSES)
    return function or has_role(facts, node, Role.CRITERION)


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
