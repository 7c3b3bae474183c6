"""Which dotted name an expression stands for, by imports and scopes alone (no values)."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Literal

from ..dataclass import dataclass, field
from ..program import Module
from ..trees import children
from .places import DEFINITIONS

MAX_HOPS = 8  # of a name from module to module
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


_SCOPES = (ast.Module, *DEFINITIONS)


@dataclass
class _Bindings:
    """What one scope binds: imported names, and the line of the first other binding of each name."""

    imports: dict[str, str] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)


class Names:
    """Resolve names of the files of a program.

    Args:
        modules: the files.
        parents: child node -> parent node, in all of them.
    """

    def __init__(self, modules: Iterable[Module], parents: dict[ast.AST, ast.AST]) -> None:
        self._parents = parents
        self._places = {node: place for place, node in enumerate(parents)}
        self._scopes: dict[ast.AST, _Bindings] = {}
        self._scope_of: dict[ast.AST, ast.AST] = {}
        self._modules: dict[ast.AST, Module] = {}
        self._stars: dict[ast.AST, list[ast.ImportFrom]] = {}
        self._qualified: dict[ast.AST, str | None] = {}
        for module in modules:
            self._modules[module.tree] = module
            self._scopes[module.tree] = _Bindings()
            self._stars[module.tree] = []
            self._collect(module.tree, module.tree)

    def stars(self, tree: ast.AST) -> list[ast.ImportFrom]:
        """The star imports of a file."""
        return self._stars[tree]

    def module(self, node: ast.AST) -> Module:
        """The file that a node stands in."""
        return self._modules[self._file(node)]

    def place(self, node: ast.AST) -> int:
        """Where a node stands among all nodes of the program; -1 for one that is in none of its texts."""
        return self._places.get(node, -1)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around a node."""
        return self._parents.get(node)

    def _file(self, node: ast.AST) -> ast.AST:
        scope = self._scope_of[node]
        while not isinstance(scope, ast.Module):
            scope = self._scope_of[scope]
        return scope

    def _collect(self, node: ast.AST, scope: ast.AST) -> None:
        """One traversal: which scope each node stands in, and what each scope binds."""
        self._scope_of[node] = scope
        bindings = self._scopes[scope]
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                bindings.imports[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom):
            self._collect_from(node, bindings)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            if not (node.id in bindings.imports and self._in_handler(node)):
                bindings.others.setdefault(node.id, node.lineno)
        elif isinstance(node, ast.arg):
            bindings.others.setdefault(node.arg, 0)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            bindings.elsewhere.update(node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bindings.others.setdefault(node.name, node.lineno)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bindings.others.setdefault(node.name, node.lineno)
        if isinstance(node, DEFINITIONS):
            self._scopes[node] = _Bindings()
            self._collect_inner(node, scope)
            return
        for child in children(node):
            self._collect(child, scope)

    def _in_handler(self, node: ast.AST) -> bool:
        """Whether a node stands in what runs when an import failed: `except ImportError: wandb = None`."""
        current: ast.AST | None = node
        while current is not None and not isinstance(current, ast.ExceptHandler):
            current = None if isinstance(current, _SCOPES) else self._parents.get(current)
        return current is not None

    def _collect_inner(self, node: ast.AST, outer: ast.AST) -> None:
        """Bodies belong to the inner scope; decorators, defaults and bases to the outer one."""
        outside: set[int] = set()
        for name in ("decorator_list", "bases", "keywords", "returns"):
            part = getattr(node, name, None)
            outside.update(id(item) for item in (part if isinstance(part, list) else [part]))
        for child in children(node):
            if id(child) in outside:
                self._collect(child, outer)
            elif isinstance(child, ast.arguments):
                for default in [*child.defaults, *[d for d in child.kw_defaults if d is not None]]:
                    self._collect(default, outer)
                for arg in [*child.posonlyargs, *child.args, *child.kwonlyargs, child.vararg, child.kwarg]:
                    if arg is not None:
                        self._collect(arg, node)
            else:
                self._collect(child, node)

    def _collect_from(self, node: ast.ImportFrom, bindings: _Bindings) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self._stars[self._file(node)].append(node)
            else:
                separator = "" if module.endswith(".") else "."
                bindings.imports[alias.asname or alias.name] = f"{module}{separator}{alias.name}"

    def scope(self, node: ast.AST) -> ast.AST:
        """The module, function, lambda or class whose scope a node is evaluated in."""
        return self._scope_of[node]

    def bound_later(self, scope: ast.AST, line: int) -> frozenset[str]:
        """Names that a scope binds only below a line."""
        bindings = self._scopes.get(scope, _Bindings())
        return frozenset(name for name, first in bindings.others.items() if first > line) - set(bindings.imports)

    def adopt(self, node: ast.AST, like: ast.AST) -> None:
        """A node that is not in the tree is evaluated in the scope of one that is."""
        self._scope_of[node] = self._scope_of[like]
        self._qualified.pop(node, None)

    def is_bound(self, name: str, tree: ast.AST) -> bool:
        """Whether any scope of a file binds a name to anything but an import of the runtime."""
        return any(
            name in b.others or b.imports.get(name, "distify.runtime") != "distify.runtime"
            for scope, b in self._scopes.items()
            if self._file(scope) is tree
        )

    def qualified(self, node: ast.AST) -> str | None:
        """Dotted name of something imported (`torch.optim.Adam`) or built in (`builtins.print`), else `None`."""
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        if node not in self._qualified:
            self._qualified[node] = self._resolved(node)
        return self._qualified[node]

    def _resolved(self, node: ast.Name | ast.Attribute) -> str | None:
        if isinstance(node, ast.Attribute):
            base = self.qualified(node.value)
            if base is None or base.startswith("builtins."):
                return None
            return self._at_home(self._modules[self._file(node)], f"{base}.{node.attr}")
        scope: ast.AST | None = self._scope_of.get(node)
        first = True
        while scope is not None:
            if first or not isinstance(scope, ast.ClassDef):
                found = self._lookup(node, self._scopes[scope], isinstance(scope, ast.Module))
                if not isinstance(found, bool):
                    return None if found is None else self._at_home(self._modules[self._file(node)], found)
            first = False
            scope = self._scope_of[scope] if not isinstance(scope, ast.Module) else None
        module = self._modules[self._file(node)]
        starred = star_home(node.id, self._stars[module.tree]) or self._from_star(module, node.id)
        return starred or f"builtins.{node.id}"

    def _from_star(self, module: Module, name: str, depth: int = 0) -> str | None:
        """What a star import of a local module binds a name to."""
        for node in self._stars[module.tree]:
            base = "." * node.level + (node.module or "")
            target = module.targets.get(base)
            if target is not None and target.tree in self._scopes and self._exports(target, name, depth):
                return self._at_home(module, f"{base}{'' if base.endswith('.') else '.'}{name}", depth)
        return None

    def _exports(self, module: Module, name: str, depth: int) -> bool:
        """Whether `from module import *` binds a name."""
        bindings = self._scopes[module.tree]
        if name.startswith("_") or depth > MAX_HOPS:
            return False
        found = name in bindings.imports or name in bindings.others
        return (
            found
            or star_home(name, self._stars[module.tree]) is not None
            or (self._from_star(module, name, depth + 1) is not None)
        )

    def _at_home(self, module: Module, dotted: str, depth: int = 0) -> str:
        """The name that something has where a local module got it from: `utils.nn.Linear` is `torch.nn.Linear`."""
        if not module.targets or depth > MAX_HOPS:
            return dotted
        parts = dotted.split(".")
        for end in range(len(parts) - 1, 0, -1):
            target = module.targets.get(".".join(parts[:end]) if any(parts[:end]) else "." * end)
            if target is None or target.tree not in self._scopes or not parts[end]:
                continue
            name, rest = parts[end], parts[end + 1 :]
            bindings = self._scopes[target.tree]
            if name in bindings.others:
                return dotted
            found = bindings.imports.get(name) or star_home(name, self._stars[target.tree])
            found = self._at_home(target, found, depth + 1) if found else self._from_star(target, name, depth + 1)
            return ".".join([found, *rest]) if found else dotted
        return dotted

    @staticmethod
    def _lookup(node: ast.Name, bindings: _Bindings, module: bool) -> str | Literal[False] | None:
        """The import's name, `None` if bound to something else, `False` if this scope does not bind it."""
        if node.id in bindings.elsewhere:
            return False
        imported = bindings.imports.get(node.id)
        line = bindings.others.get(node.id)
        if imported is None:
            return False if line is None else None
        # `model = model.Net()` rebinds an imported module: the import holds up to that line.
        return imported if line is None or node.lineno <= line else None


_STAR_HOMES = {
    "torch.nn": "Module Linear Conv1d Conv2d Conv3d CrossEntropyLoss MSELoss BCELoss Sequential ModuleList Embedding",
    "torch.optim": "Adam AdamW SGD RMSprop Adagrad Adadelta Adamax NAdam RAdam ASGD LBFGS Rprop SparseAdam Adafactor",
    "torch.utils.data": "DataLoader Dataset TensorDataset IterableDataset Subset random_split ConcatDataset",
}


def star_home(name: str, stars: list[ast.ImportFrom]) -> str | None:
    """Where a name comes from that only a star import of a known torch module can have bound."""
    for node in stars:
        if node.level == 0 and node.module and name in _STAR_HOMES.get(node.module, "").split():
            return f"{node.module}.{name}"
    return None
