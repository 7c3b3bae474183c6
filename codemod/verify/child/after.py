"""Work that is done when a module has been imported, and not before: a script may set variables that torch reads."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class After(MetaPathFinder):
    """A finder that lets others find modules, and does its work on some of them.

    Args:
        work: what to do, by the name of the module.
    """

    def __init__(self, work: dict[str, Callable[[Any], None]]) -> None:
        self.work = work

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec, whose loader does the work as well."""
        work = self.work.pop(name, None)
        if work is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            work(module)

        loader.exec_module = exec_module
        return spec


def after(work: dict[str, Callable[[Any], None]]) -> None:
    """Do work when modules have been imported; at once on those that are there already."""
    for name in [name for name in work if name in sys.modules]:
        work.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, After(work))
