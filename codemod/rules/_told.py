"""What a condition will be, told at an earlier place; no rule by itself.

loss.backward()
count += 1
if count % 4 == 0:          # told before the backward: (count + 1) % 4 == 0
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ._source import dotted

if TYPE_CHECKING:
    from ..facts.model import Facts

PLAIN = (
    ast.Name,
    ast.Attribute,
    ast.Constant,
    ast.BinOp,
    ast.BoolOp,
    ast.UnaryOp,
    ast.Compare,
    ast.operator,
    ast.boolop,
    ast.unaryop,
    ast.cmpop,
    ast.expr_context,
)


def told(facts: Facts, test: ast.expr, between: Sequence[ast.stmt]) -> ast.expr | None:
    """A condition as it is to be written ahead of some statements that run before it; `None` if they decide over it.

    The condition itself where they set nothing of it, else one in which what they set is put in place.
    """
    if not plain(facts, test):
        return None
    found = test
    for statement in reversed(between):
        names = read(found)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            name, value = dotted(statement.targets[0]), statement.value
        elif isinstance(statement, ast.AugAssign):
            name = dotted(statement.target)
            value = ast.BinOp(_loaded(statement.target), statement.op, statement.value)
        else:
            name, value = None, None
        if name in names and value is not None and plain(facts, value):
            put = _Put(name, value).visit(copy.deepcopy(found))
            assert isinstance(put, ast.expr)
            found = put
        elif names & stored(statement):
            return None
    return found


def plain(facts: Facts, node: ast.expr) -> bool:
    """Whether an expression only computes with names, attributes, numbers and lengths, equal on all processes."""
    if isinstance(node, ast.Call):
        single = isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1 and not node.keywords
        return single and plain(facts, node.args[0]) and not facts.value(node.args[0]).is_sample
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and plain(facts, node.value) and not facts.value(node).is_sample
    if not isinstance(node, PLAIN) or (isinstance(node, ast.Attribute) and dotted(node) is None):
        return False
    if isinstance(node, ast.Name) and facts.value(node).is_sample:
        return False
    return all(plain(facts, part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))


def read(node: ast.AST) -> set[str | None]:
    """The names and attributes that an expression reads."""
    return {dotted(item) for item in ast.walk(node) if isinstance(item, (ast.Name, ast.Attribute))} - {None}


def stored(node: ast.AST) -> set[str | None]:
    """The names and attributes that a statement sets."""
    targets = [item for item in ast.walk(node) if isinstance(item, (ast.Name, ast.Attribute, ast.Subscript))]
    changed = [item for item in targets if not isinstance(item.ctx, ast.Load)]
    return {dotted(item.value if isinstance(item, ast.Subscript) else item) for item in changed} - {None}


def negated(test: ast.expr) -> ast.expr:
    """The opposite of a condition."""
    opposite: dict[type[ast.cmpop], ast.cmpop] = {ast.Eq: ast.NotEq(), ast.NotEq: ast.Eq()}
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.BoolOp):
        other = ast.Or() if isinstance(test.op, ast.And) else ast.And()
        return ast.BoolOp(other, [negated(value) for value in test.values])
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in opposite:
        return ast.Compare(test.left, [opposite[type(test.ops[0])]], test.comparators)
    return ast.UnaryOp(ast.Not(), test)


class _Put(ast.NodeTransformer):
    """Put an expression in the place of a name."""

    def __init__(self, name: str | None, value: ast.expr) -> None:
        self.name, self.value = name, value

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (ast.Name, ast.Attribute)) and dotted(node) == self.name:
            return copy.deepcopy(self.value)
        return self.generic_visit(node)


def _loaded(target: ast.expr) -> ast.expr:
    node = copy.deepcopy(target)
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        node.ctx = ast.Load()
    return node
