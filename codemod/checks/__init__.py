"""What has become unsafe in scripts that run on several processes already, one idea each: facts in, findings out.

A check is a function under the decorator `check`. All modules of this package are found by themselves; none imports
another one, and what several need is in files that begin with an underscore. Checks only read facts.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from ..dataclass import dataclass
from ..findings import Finding
from ..kinds import Kind

if TYPE_CHECKING:
    from ..facts.model import Facts

Function = Callable[["Facts"], Iterable[Finding]]


@dataclass(frozen=True)
class Check:
    """A check; called like the function it was made of.

    Attributes:
        name: unique.
        kinds: the scripts that it looks at.
        function: facts of one file to findings.
    """

    name: str
    kinds: frozenset[Kind]
    function: Function

    def __call__(self, facts: Facts) -> Iterable[Finding]:
        return self.function(facts)


def check(name: str, *kinds: Kind) -> Callable[[Function], Check]:
    """Makes a function a check of scripts of some kinds."""
    return lambda function: Check(name, frozenset(kinds), function)


@lru_cache(maxsize=None)
def checks() -> tuple[Check, ...]:
    """All checks of this package by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f".{name}", __name__) for name in names]
    found = {id(item): item for module in modules for item in vars(module).values() if isinstance(item, Check)}
    return tuple(sorted(found.values(), key=lambda item: item.name))


def run(facts: Facts, kind: Kind) -> list[Finding]:
    """The findings of all checks about one file of a program that trains."""
    found: list[Finding] = []
    for item in checks():
        if kind in item.kinds and facts.is_training:
            facts.budget.check()
            found.extend(item(facts))
    return found


__all__ = ["Check", "Kind", "check", "checks", "run"]
