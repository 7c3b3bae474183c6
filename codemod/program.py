"""The files that make up a program: the script that is run, and the local modules that it imports.

Modules are found as Python would find them next to the script, and above it up to the root of the project (people put
that on `sys.path`). Nothing is imported: what lies outside the project, or can't be found, stays a name.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from functools import cached_property

from .dataclass import dataclass, field
from .folders import names_in, search_roots
from .imports import beginnings, imported
from .trees import walk

OUTSIDE = ("site-packages", "dist-packages")
MOST_ABOVE = 3  # folders above a script, where it says that something is to be found there
MOST_CHOICES = 32  # modules that one computed name may mean

Reader = Callable[[str], "str | None"]
"""Gives the text of a file, `None` if it is no readable Python."""


@dataclass(eq=False)
class Module:
    """A file of a program.

    Attributes:
        path: as messages call it; empty for a folder without `__init__.py`.
        source: its decoded text.
        tree: its `ast`.
        real: its resolved path; the folder's for one without `__init__.py`.
        is_package: whether it is a folder's `__init__.py`, or the folder itself.
    """

    path: str
    source: str
    tree: ast.Module
    real: str = ""
    is_package: bool = False
    targets: dict[str, Module] = field(default_factory=dict, repr=False)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All its nodes, as `ast.walk` gives them."""
        return walk(self.tree)

    @property
    def folder(self) -> str:
        """The folder that its relative imports start from."""
        return self.real if self.is_package and not self.real.endswith(".py") else os.path.dirname(self.real)


@dataclass(eq=False)
class Program:
    """A script and the local modules that it imports, itself first, then as they are met.

    Attributes:
        modules: every file, the script first.
        roots: folders in which absolute imports are looked up.
        by_hand: it may be distributed by hand: what differs between processes is followed.
    """

    modules: list[Module]
    roots: tuple[str, ...] = ()
    by_hand: bool = False

    @property
    def entry(self) -> Module:
        """The script that is run."""
        return self.modules[0]

    @classmethod
    def single(cls, path: str, source: str) -> Program:
        """A program of one file, whose imports are not followed.

        Raises:
            SyntaxError: the text is no Python of the running version.
        """
        return cls([Module(path, source, ast.parse(source))])

    @classmethod
    def load(cls, path: str, source: str, read: Reader) -> Program:
        """A script with all local modules that it reaches.

        Args:
            path: of the script.
            source: its text.
            read: gives the text of another file.

        Raises:
            SyntaxError: the script is no Python of the running version.
        """
        real = os.path.realpath(path)
        entry = Module(path, source, ast.parse(source), real)
        folder = os.path.dirname(real)
        roots = dict.fromkeys([*search_roots(folder), *added_roots(entry.tree, folder)])
        program = cls([entry], tuple(roots))
        Loader(program, path, read).follow()
        return program

    def resolve(self, module: Module, name: str) -> Module | None:
        """The module of the program that an import names (with leading dots if relative), `None` if none does."""
        return module.targets.get(name)

    def submodule(self, package: Module, name: str) -> Module | None:
        """A module of the program inside a package, if anything imports it."""
        base = os.path.join(package.folder, name) if package.is_package else ""
        found = (base + ".py", os.path.join(base, "__init__.py"), base)
        return next((item for item in self.modules if base and item.real in found), None)


def added_roots(tree: ast.Module, folder: str) -> Iterator[str]:
    """Folders that a script puts on `sys.path`: those it spells out, and those above it, which it most likely means."""
    touched = False
    for node in ast.walk(tree):
        target = node.func if isinstance(node, ast.Call) else None
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "sys.path":
            touched = True
            parts = [part.value for arg in node.args for part in ast.walk(arg) if isinstance(part, ast.Constant)]  # type: ignore[attr-defined]
            named = os.path.normpath(os.path.join(folder, *[part for part in parts if isinstance(part, str)]))
            if os.path.isdir(named):
                yield named
    for _ in range(MOST_ABOVE if touched else 0):
        folder = os.path.dirname(folder)
        yield folder


class Loader:
    """Follows the imports of a program.

    Args:
        program: holds the script; what is found is added to it.
        path: of the script as the user gave it; other files are called accordingly.
        read: gives the text of a file.
    """

    def __init__(self, program: Program, path: str, read: Reader) -> None:
        self.program = program
        self.read = read
        self.absolute = os.path.isabs(path)
        self.known: dict[str, Module | None] = {program.entry.real: program.entry}

    def follow(self) -> None:
        """Load everything that is imported, directly or not."""
        for module in self.program.modules:  # grows while it is gone through
            for name in imported(module.tree):
                found = self.find(module, name)
                if found is not None:
                    module.targets[name] = found
            for begin in beginnings(module.tree):
                self.all_of(module, begin)

    def all_of(self, module: Module, begin: str) -> None:
        """Load every module that a name which is completed at run time may mean: `import_module("models." + name)`."""
        package, _, start = begin.rpartition(".")
        found = self.find(module, package)
        if found is None or not found.is_package:
            return
        stems = {os.path.splitext(name)[0] for name in names_in(found.folder) if name.endswith(".py")}
        for stem in sorted(stem for stem in stems if stem.startswith(start) and stem != "__init__")[:MOST_CHOICES]:
            inner = self.below(found.folder, [stem])
            if inner is not None:
                module.targets[f"{package}.{stem}"] = inner

    def find(self, module: Module, name: str) -> Module | None:
        """The module that a dotted name means in a file."""
        stripped = name.lstrip(".")
        level = len(name) - len(stripped)
        parts = stripped.split(".") if stripped else []
        if level:
            folder = module.folder
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            return self.below(folder, parts)
        for root in self.program.roots:
            found = self.below(root, parts)
            if found is not None:
                return found
        return None

    def below(self, folder: str, parts: list[str]) -> Module | None:
        """A module by its path from a folder; packages on the way are loaded too."""
        if not parts:
            return self.load(os.path.join(folder, "__init__.py"), True) or self.bare(folder)
        path = folder
        for index, part in enumerate(parts):
            path = os.path.join(path, part)
            initial = self.load(os.path.join(path, "__init__.py"), True)
            last = index == len(parts) - 1
            if last:
                return initial or self.load(path + ".py", False) or self.bare(path)
            if initial is None and not os.path.isdir(path):
                return None
        return None

    def load(self, path: str, is_package: bool) -> Module | None:
        """The module in a file, if there is one that can be read and parsed."""
        real = os.path.realpath(path)
        if real not in self.known:
            self.known[real] = None
            source = self.read(path) if os.path.isfile(path) and not is_outside(real) else None
            if source is not None:
                try:
                    tree = ast.parse(source)
                except (SyntaxError, ValueError, RecursionError):
                    return None
                self.add(Module(self.shown(path), source, tree, real, is_package))
        return self.known[real]

    def bare(self, folder: str) -> Module | None:
        """A folder without `__init__.py` that holds Python files, as a package with nothing in it."""
        real = os.path.realpath(folder)
        if real not in self.known:
            self.known[real] = None
            if not is_outside(real) and any(name.endswith(".py") for name in names_in(real)):
                self.add(Module("", "", ast.Module([], []), real, True))
        return self.known[real]

    def add(self, module: Module) -> None:
        self.known[module.real] = module
        self.program.modules.append(module)

    def shown(self, path: str) -> str:
        """What messages call a file: relative to where the user is, unless the script was given by a full path."""
        relative = os.path.relpath(path)
        return os.path.abspath(path) if self.absolute or relative.startswith("..") else relative


def has_main_guard(tree: ast.Module) -> bool:
    """Whether a file has an `if __name__ == "__main__":`."""
    return any(is_main_guard(node) for node in tree.body)


def is_main_guard(node: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return False
    sides = [node.test.left, *node.test.comparators]
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)


def is_outside(path: str) -> bool:
    """Whether a file belongs to an installed package."""
    return any(f"{os.sep}{name}{os.sep}" in path for name in OUTSIDE)
