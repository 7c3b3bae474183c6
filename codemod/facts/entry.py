"""Where a run begins to matter: the first statement that seeds, picks a device, builds a model or opens data."""

from __future__ import annotations

import ast

from ..program import Module, Program, is_main_guard
from .names import Names
from .places import DEFINITIONS

_ROOTS = {
    "torch", "torchvision", "torchaudio", "torchtext", "numpy", "random", "transformers", "timm", "datasets", "wandb",
    "mlflow", "tensorboardX", "sklearn", "distify", "torch_geometric",
}  # fmt: skip
_HARMLESS = ("torch.cuda.is_available", "torch.cuda.device_count", "torch.backends.", "torch.__version__")
_HARMLESS_ROOTS = ("torch", "torch.cuda", "torch.backends")


class Entries:
    """Finds the entry statement of a program.

    Args:
        program: its files.
        names: resolver of their names.
    """

    def __init__(self, program: Program, names: Names) -> None:
        self.program = program
        self._files = {module: Entry(self, module, names) for module in program.modules}

    def statement(self) -> ast.stmt | None:
        """The first statement of the script that matters, `None` if it runs nothing that does."""
        return self._files[self.program.entry].first()

    def importing(self, module: Module) -> bool:
        """Whether importing a module runs something that matters: it seeds, or makes data, when it is loaded."""
        return module is not self.program.entry and self._files[module].runs()

    def using(self, module: Module, name: str) -> bool:
        """Whether calling a global name of a module runs something that matters."""
        return self._files[module].defines(name)


class Entry:
    """The part of one file in that search."""

    def __init__(self, entries: Entries, module: Module, names: Names) -> None:
        self._entries = entries
        self._module = module
        self._tree = module.tree
        self._names = names
        self._definitions = {n.name: n for n in self._tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        self._answers: dict[ast.AST, bool] = {}
        self._busy = False

    def first(self) -> ast.stmt | None:
        """The first statement that matters, `None` if the file runs nothing that does."""
        return self._first(self._tree.body, descend=True)

    def runs(self) -> bool:
        """Whether loading the file runs something that matters; what a cycle of imports comes back to is settled."""
        if self._busy:
            return False
        self._busy = True
        guarded = [node for node in self._tree.body if not is_main_guard(node)]
        found = self._first(guarded, descend=False) is not None
        self._busy = False
        return found

    def defines(self, name: str) -> bool:
        """Whether a definition of the file touches what matters; a name that it only passes on may."""
        definition = self._definitions.get(name)
        return definition is None or self._defined(definition)

    def _first(self, statements: list[ast.stmt], descend: bool) -> ast.stmt | None:
        for node in statements:
            if isinstance(node, (ast.Import, ast.ImportFrom)) and self._imports(node):
                return node
            if isinstance(node, (*DEFINITIONS, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)):
                continue
            if not self._matters(node):
                continue
            if is_main_guard(node):
                assert isinstance(node, ast.If)
                return self._first(node.body, descend)
            if isinstance(node, ast.Try):
                return self._first(node.body, descend) or node
            function = self._called_once(node) if descend else None
            if function is not None:
                return self._first(function.body, descend=False) or node
            return node
        return None

    def _imports(self, node: ast.Import | ast.ImportFrom) -> bool:
        """Whether an import loads a local module that runs something that matters."""
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names = [base, *(f"{base}{'' if base.endswith('.') else '.'}{name}" for name in names)]
        found = [self._module.targets.get(name) for name in names]
        return any(module is not None and self._entries.importing(module) for module in found)

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
            local = self._local(qualified)
            alone = not isinstance(self._names.parent(node), ast.Attribute)
            if alone and self._module.targets.get(qualified) is not None:
                return True  # a module handed on: what is taken from it is known at run time only
            if local is not None:
                return self._entries.using(*local)
            if root in _ROOTS or qualified.startswith("."):
                return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("cuda"):
            return True
        if isinstance(node, ast.Name):
            definition = self._definitions.get(node.id)
            return definition is not None and self._defined(definition)
        return False

    def _defined(self, definition: ast.FunctionDef | ast.ClassDef) -> bool:
        """Whether running a definition of this file touches what matters."""
        if isinstance(definition, ast.FunctionDef):
            return any(self._matters(s) for s in definition.body)
        methods = [s for s in definition.body if isinstance(s, ast.FunctionDef)]
        return bool(definition.bases) or any(self._matters(s) for m in methods for s in m.body)

    def _local(self, qualified: str) -> tuple[Module, str] | None:
        """The local module that a dotted name belongs to, and its name there; `None` for any other."""
        parts = qualified.split(".")
        for end in range(len(parts) - 1, 0, -1):
            module = self._module.targets.get(".".join(parts[:end]) if any(parts[:end]) else "." * end)
            if module is not None:
                return module, parts[end]
        return None


def _running(node: ast.AST) -> list[ast.AST]:
    """The node and what runs with it: not the bodies of definitions."""
    found, stack = [], [node]
    while stack:
        current = stack.pop()
        found.append(current)
        if not isinstance(current, DEFINITIONS) and not _is_option(current):
            stack.extend(ast.iter_child_nodes(current))
    return found


def _is_option(node: ast.AST) -> bool:
    """`parser.add_argument(…)`: its default is no device yet."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"
