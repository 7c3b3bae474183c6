"""The names by which a file imports modules, in statements and by calls of `importlib.import_module`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

FUNCTIONS = ("import_module", "__import__")


def imported(tree: ast.Module) -> Iterator[str]:
    """Every dotted name that the imports of a file may mean a module by, relative ones with their dots."""
    seen: set[str] = set()
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            for alias in node.names:
                names += _prefixes(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names += (_prefixes(base) if not node.level else []) or [base]
            separator = "" if base.endswith(".") else "."
            names += [f"{base}{separator}{alias.name}" for alias in node.names if alias.name != "*"]
        elif isinstance(node, ast.Call) and is_import(node) and isinstance(node.args[0], ast.Constant):
            names += _prefixes(str(node.args[0].value))
        for name in names:
            if name not in seen:
                seen.add(name)
                yield name


def beginnings(tree: ast.Module) -> list[str]:
    """What the names of modules begin with that calls complete at run time, a dot included: `models.`, `nets.res`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and is_import(node)]
    found = [beginning(call.args[0]) for call in calls if not isinstance(call.args[0], ast.Constant)]
    return [text for text in dict.fromkeys(found) if "." in text.lstrip(".")]


def is_import(call: ast.Call) -> bool:
    """Whether a call imports a module by name."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in FUNCTIONS and bool(call.args)


def beginning(node: ast.expr) -> str:
    """The text that an expression surely begins with: of a sum, a format, an f-string."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left = beginning(node.left)
        return left + beginning(node.right) if isinstance(node.left, ast.Constant) else left
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return beginning(node.left).split("%")[0]
    if isinstance(node, ast.JoinedStr):
        return beginning(node.values[0]) if node.values else ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return re.split(r"[{}]", beginning(node.func.value))[0]
    return ""


def _prefixes(name: str) -> list[str]:
    """A dotted name with the packages on the way to it."""
    parts = name.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))] if name and not name.startswith(".") else []
