"""Which expressions name a CUDA device, and how; no rule by itself."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Literal

from ._source import argument, bindings

if TYPE_CHECKING:
    from ..facts.model import Facts

Kind = Literal["auto", "cuda", "indexed"]
"""auto: CUDA if there is any, else the CPU; cuda: the current CUDA device; indexed: one that is named by number."""

INDEXED = re.compile(r"cuda:\d+")


def kind_of(facts: Facts, node: ast.expr | None) -> Kind | None:
    """How an expression names a CUDA device; `None` if it doesn't, or may name another as well."""
    if node is None:
        return None
    text = prefix(node)
    if text is not None:
        exact = isinstance(node, ast.Constant)
        if text == "cuda" and exact:
            return "cuda"
        return "indexed" if text == "cuda:" or (exact and INDEXED.fullmatch(text)) else None
    if isinstance(node, ast.IfExp):
        return kind_of_choice(facts, node)
    if isinstance(node, ast.Call) and facts.names.qualified(node.func) == "torch.device":
        first = argument(node, 0, "type") or argument(node, 0, "device")
        if isinstance(first, ast.Constant) and type(first.value) is int:
            return "indexed"
        kind = kind_of(facts, first)
        return "indexed" if kind == "cuda" and argument(node, 1, "index") is not None else kind
    return None


def prefix(node: ast.expr) -> str | None:
    """The text of a string constant, or what a formatted string (of any style) begins with: `f"cuda:{gpu}"`."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr) and len(node.values) == 2 and isinstance(node.values[1], ast.FormattedValue):
        return prefix(node.values[0])
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        return placeholder(prefix(node.left))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return placeholder(prefix(node.func.value))
    return None


def placeholder(text: str | None) -> str | None:
    """The text before the place of the number, where nothing follows it."""
    return text if text is None else re.sub(r"(%[ds]|\{\d?\})$", "", text)


def kind_of_choice(facts: Facts, node: ast.IfExp) -> Kind | None:
    """`"cuda" if torch.cuda.is_available() else "cpu"`, either way round."""
    available = is_available(facts, node.test)
    if available is None:
        return None
    there, absent = (node.body, node.orelse) if available else (node.orelse, node.body)
    return "auto" if kind_of(facts, there) is not None and is_cpu(facts, absent) else None


def is_available(facts: Facts, test: ast.expr) -> bool | None:
    """`True` for `torch.cuda.is_available()` or a name for it, `False` for its negation, else `None`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = is_available(facts, test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.Call):
        return True if facts.names.qualified(test.func) == "torch.cuda.is_available" else None
    if isinstance(test, ast.Name):
        values = bindings(facts, test)
        if len(values) == 1 and isinstance(values[0], ast.Call):
            return is_available(facts, values[0])
    return None


def is_cpu(facts: Facts, node: ast.expr) -> bool:
    """Whether an expression names the CPU."""
    if isinstance(node, ast.Call) and facts.names.qualified(node.func) == "torch.device":
        return len(node.args) == 1 and is_cpu(facts, node.args[0])
    return isinstance(node, ast.Constant) and node.value == "cpu"


def is_text(node: ast.expr) -> bool:
    """Whether a device expression is a string (and no `torch.device`)."""
    if isinstance(node, ast.IfExp):
        return is_text(node.body)
    return not isinstance(node, ast.Call) or (isinstance(node.func, ast.Attribute) and node.func.attr == "format")
