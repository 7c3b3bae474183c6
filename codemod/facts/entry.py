"""Where a run begins to matter: the first statement that seeds, picks a device, builds a model or opens data."""

from __future__ import annotations

import ast

from .names import Names

_ROOTS = {
    "torch", "torchvision", "torchaudio", "torchtext", "numpy", "random", "transformers", "timm", "datasets", "wandb",
    "mlflow", "tensorboardX", "sklearn", "distify", "torch_geometric",
}  # fmt: skip
_HARMLESS = ("torch.cuda.is_available", "torch.cuda.device_count", "torch.backends.", "torch.__version__")
_HARMLESS_ROOTS = ("torch", "torch.cuda", "torch.backends")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Entry:
    """Finds the entry statement of one file.

    Args:
        tree: the module.
        names: resolver of its names.
    """

    def __init__(self, tree: ast.Module, names: Names) -> None:
        self._tree = tree
        self._names = names
        self._definitions = {n.name: n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        self._answers: dict[ast.AST, bool] = {}

    def statement(self) -> ast.stmt | None:
        """The first statement that matters, `None` if the file runs nothing that does."""
        return self._first(self._tree.body, descend=True)

    def _first(self, statements: list[ast.stmt], descend: bool) -> ast.stmt | None:
        for node in statements:
            if isinstance(node, (*_DEFINITIONS, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)):
                continue
            if not self._matters(node):
                continue
            if _is_main_guard(node):
                assert isinstance(node, ast.If)
                return self._first(node.body, descend)
            if isinstance(node, ast.Try):
                return self._first(node.body, descend) or node
            function = self._called_once(node) if descend else None
            if function is not None:
                return self._first(function.body, descend=False) or node
            return node
        return None

    def _called_once(self, node: ast.stmt) -> ast.FunctionDef | None:
        """The function of this file that a bare call statement enters, if it is called nowhere else."""
        call = getattr(node, "value", None)
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return None
        function = self._definitions.get(call.func.id)
        if not isinstance(function, ast.FunctionDef) or any(self._matters(a) for a in call.args):
            return None
        uses = [n for n in ast.walk(self._tree) if isinstance(n, ast.Name) and n.id == function.name]
        return function if len(uses) == 1 else None

    def _matters(self, node: ast.AST) -> bool:
        """Whether running a node (not only defining it) touches torch, random numbers or data."""
        if node in self._answers:
            return self._answers[node]
        self._answers[node] = False
        self._answers[node] = any(self._touches(part) for part in _running(node))
        return self._answers[node]

    def _touches(self, node: ast.AST) -> bool:
        if isinstance(node, (ast.Name, ast.Attribute)):
            qualified = self._names.qualified(node) or ""
            root = qualified.split(".")[0]
            if qualified.startswith(_HARMLESS) or qualified in _HARMLESS_ROOTS:
                return False
            if root in _ROOTS or qualified.startswith("."):
                return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("cuda"):
            return True
        if isinstance(node, ast.Name):
            definition = self._definitions.get(node.id)
            if isinstance(definition, ast.FunctionDef):
                return any(self._matters(s) for s in definition.body)
            if isinstance(definition, ast.ClassDef):
                methods = [s for s in definition.body if isinstance(s, ast.FunctionDef)]
                return bool(definition.bases) or any(self._matters(s) for m in methods for s in m.body)
        return False


def _running(node: ast.AST) -> list[ast.AST]:
    """The node and what runs with it: not the bodies of definitions."""
    found, stack = [], [node]
    while stack:
        current = stack.pop()
        found.append(current)
        if not isinstance(current, _DEFINITIONS) and not _is_option(current):
            stack.extend(ast.iter_child_nodes(current))
    return found


def _is_option(node: ast.AST) -> bool:
    """`parser.add_argument(…)`: its default is no device yet."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"


def _is_main_guard(node: ast.stmt) -> bool:
    """`if __name__ == "__main__":`."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return False
    sides = [node.test.left, *node.test.comparators]
    return any(isinstance(s, ast.Name) and s.id == "__name__" for s in sides)
