"""The rules, one file each: facts in, edits and findings out. No rule imports another.

A rule is a function under the decorator `rule`. All modules of this package are found by themselves; rules run in
ascending `order`, then by name. The order matters for edits of equal range only: what is listed first is outermost.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Union

from ..dataclass import dataclass, replace
from ..edits import Edit
from ..findings import Finding

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

Outcome = Union[Edit, Finding]
Function = Callable[["Facts", "Options"], Iterable[Outcome]]


@dataclass(frozen=True)
class Rule:
    """A rule; called like the function it was made of."""

    name: str
    order: int
    function: Function
    gate: bool = False

    def __call__(self, facts: Facts, options: Options) -> Iterable[Outcome]:
        return self.function(facts, options)


def rule(name: str, order: int = 50, gate: bool = False) -> Callable[[Function], Rule]:
    """Makes a function a rule.

    Args:
        name: unique, shown by `--verbose`.
        order: rules with lower numbers come first, so that their edits are outside of others of equal range.
        gate: where it reports an error, the file is left alone as a whole: no rule after it runs, and nothing else that
            was found in the file counts.
    """
    return lambda function: Rule(name, order, function, gate)


@lru_cache(maxsize=None)
def rules() -> tuple[Rule, ...]:
    """All rules of this package in their order."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f".{name}", __name__) for name in names]
    found = {id(item): item for module in modules for item in vars(module).values() if isinstance(item, Rule)}
    return tuple(sorted(found.values(), key=lambda item: (item.order, item.name)))


def run(facts: Facts, options: Options) -> tuple[list[Edit], list[Finding]]:
    """Runs all rules over the facts of one file and returns their edits, and their findings with those of the facts.

    In a file of a program that trains nothing, only the gates are asked.
    """
    edits: list[Edit] = []
    findings: list[Finding] = []
    for item in rules():
        if not (facts.is_training or item.gate):
            continue
        facts.budget.check()
        for outcome in item(facts, options):
            if isinstance(outcome, Edit):
                edits.append(replace(outcome, rule=item.name))
            else:
                findings.append(outcome)
        if item.gate and any(found.level == "error" for found in findings):
            return [], findings
    return edits, [*facts.findings, *findings]
