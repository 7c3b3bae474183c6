"""What a window can't give: losses that are no sum of means, and results that outlive the end of the window."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..findings import Finding, finding
from ._source import FUNCTIONS, ancestors, contains, function_of, position

if TYPE_CHECKING:
    from ..facts.model import Facts, Step

LINEAR_CALLS = {"mean", "sum", "backward", "item", "detach", "float", "to", "view", "squeeze"}


def inexact(facts: Facts, step: Step) -> Iterator[Finding]:
    """A warning for each reduced value of a step that is divided by, raised, or passed through a function.

    Micro-batches add up to a larger batch in means and sums only: the root of a mean of means is another number
    (huggingface/transformers#34191).
    """
    home = step.loop or step.body[0] if step.body else None
    if home is None:
        return
    done: set[int] = set()
    for item in facts.reductions:
        statement = facts.statement(item.node)
        if contains(home, [item.node]) and id(statement) not in done and nonlinear(facts, item.node):
            done.add(id(statement))
            yield finding("DST212", item.node)


def nonlinear(facts: Facts, node: ast.AST) -> bool:
    """Whether a value is used in its own statement in a way that doesn't keep sums."""
    below: ast.AST = node
    found = False
    for item in ancestors(facts, node):
        if isinstance(item, (ast.stmt, *FUNCTIONS)):
            return found
        if isinstance(item, ast.Attribute) and item.attr == "item":
            return False
        if isinstance(item, ast.BinOp):
            divides = isinstance(item.op, (ast.Div, ast.FloorDiv)) and item.right is below
            found = found or divides or isinstance(item.op, (ast.Pow, ast.Mod))
        elif isinstance(item, ast.Call):
            name = item.func.attr if isinstance(item.func, ast.Attribute) else getattr(item.func, "id", "")
            found = found or name not in LINEAR_CALLS
        below = item
    return found


def outliving(facts: Facts, moved: Iterable[ast.stmt]) -> Iterator[Finding]:
    """An error for each name that only the window's end binds and that is read where every micro-batch goes."""
    statements = list(moved)
    for statement in statements:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for name in {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}:
            scope = function_of(facts, statement)
            reads = [
                part
                for part in ast.walk(scope)
                if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load)
            ]
            if any(position(r) > position(statement) and not any(contains(s, [r]) for s in statements) for r in reads):
                yield finding("DST213", statement)
                break
