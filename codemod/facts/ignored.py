"""Targets of -100, which losses leave out unless told otherwise: what tells that a program has such."""

from __future__ import annotations

import ast

PADDING_LIBRARIES = ("transformers", "trl", "peft")


def tells(node: ast.AST) -> bool:
    """Whether a node does: the number, also in a text or under its name in a loss, and libraries whose collate
    functions pad labels with it."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [] if node.level else [node.module or ""]
        return any(name.split(".")[0] in PADDING_LIBRARIES for name in names)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and "-100" in node.value
    if isinstance(node, ast.Attribute):
        return node.attr == "ignore_index"
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    return negative and isinstance(node.operand, ast.Constant) and node.operand.value == 100  # type: ignore[attr-defined]
