"""Which blocks one process alone can run; no rule by itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ._settle import Training
from ._source import ancestors, function_of

if TYPE_CHECKING:
    from ..facts.model import Facts

SHARED = ("distify.", "random.", "numpy.random.", "torch.rand", "torch.normal", "torch.multinomial", "torch.bernoulli")
CHANGERS = ("append", "extend", "insert", "pop", "remove", "clear", "update", "add", "setdefault", "popitem", "sort")


def stands_apart(facts: Facts, block: ast.With) -> bool:
    """Whether one process alone can run a block: it needs no others, and leaves nothing behind but what it wrote."""
    inside = list(ast.walk(block))
    marks = {id(node) for node in inside}
    shared: list[ast.expr] = [item.node for item in facts.reductions] + [item.node for item in facts.gathers]
    shared += [item.node for item in facts.counts] + [item.node for item in facts.fulls]
    if any(id(node) in marks for node in shared) or facts.worked_out(Training).runs(block):
        return False
    bound = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    if any(needs_all(facts, node) or changes(node, bound) for node in inside):
        return False
    return not any(
        isinstance(node, ast.Name) and node.id in bound and id(node) not in marks and not binds_anew(facts, node)
        for node in ast.walk(function_of(facts, block))
    )


def needs_all(facts: Facts, node: ast.AST) -> bool:
    """Whether a node may wait for the others, or draws: state of models, the runtime, functions of the file."""
    if not isinstance(node, ast.Call):
        return False
    name = facts.names.qualified(node.func) or ""
    if name in ("torch.save", "torch.load") or name.startswith(SHARED) or facts.value(node.func).defs:
        return True
    return isinstance(node.func, ast.Attribute) and node.func.attr in ("state_dict", "load_state_dict")


def changes(node: ast.AST, bound: set[str]) -> bool:
    """Whether a node changes an object that was there before the block."""
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return True
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGERS):
        return False
    return not (isinstance(node.func.value, ast.Name) and node.func.value.id in bound)


def binds_anew(facts: Facts, node: ast.Name) -> bool:
    """Whether a name is (or is below a statement that is) another binding, so that an earlier value isn't read."""
    if isinstance(node.ctx, ast.Store):
        return True
    return any(
        isinstance(item, (ast.With, ast.For)) and any(binds(part, node.id) for part in ast.iter_child_nodes(item))
        for item in ancestors(facts, node)
    )


def binds(node: ast.AST, name: str) -> bool:
    """Whether a target of a `with` or `for` is a name."""
    target = node.optional_vars if isinstance(node, ast.withitem) else node
    return isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store) and target.id == name
