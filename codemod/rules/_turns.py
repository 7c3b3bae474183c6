"""Conditions on files: which ones all processes take in turn, and which they must agree on; no rule by itself.

A process that comes later finds the file that another one has just written, and goes another way. Where nothing trains
inside, the processes take the condition one after the other, which is right then: one makes the file, the others find
it complete. Elsewhere they must decide alike, before what needs all of them: a save, a load, a training step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.saved import LOADS, SAVES
from ._downloads import fetches
from ._fetched import Fetched
from ._fetched import of_program as fetched_of
from ._order import asks_for_files, before_start, on_main_only, shared_condition
from ._settle import Training
from ._source import FUNCTIONS, LOOPS, RUNTIME, after, ancestors, calls, enclosing_with
from ._writers import openers, writers

if TYPE_CHECKING:
    from ..facts.model import Facts

PATHS = (ast.Return, ast.Continue, ast.Break)


def taken_in_turn(facts: Facts, fetched: Fetched) -> list[ast.If]:
    """The conditions with something in them that writes, which one process can do for all."""
    found: dict[int, ast.If] = {}
    for call in [*openers(facts), *writers(facts), *calls(facts, *SAVES)]:
        condition = shared_condition(facts, call)
        if condition is not None and not is_settled(facts, call) and not fetched.holds(call):
            found[id(condition)] = condition
    return list(found.values())


def is_settled(facts: Facts, call: ast.Call) -> bool:
    """Whether a call is guarded already."""
    return enclosing_with(facts, call, f"{RUNTIME}.main_first") is not None or on_main_only(facts, call)


def to_agree_on(facts: Facts, training: Training) -> Iterator[ast.If]:
    """The conditions on files that decide over what needs all processes."""
    fetched = fetched_of(facts)
    turns = taken_in_turn(facts, fetched)
    needing = {id(call) for call in calls(facts, *SAVES, *LOADS)}
    once = {id(call) for call in [*openers(facts), *writers(facts), *downloads(facts)]}
    for node in facts.nodes:
        if not isinstance(node, ast.If) or not asks_for_files(facts, node.test):
            continue
        around = list(ancestors(facts, node))
        if any(turn is node or turn in around for turn in turns) or fetched.holds(node) or before_start(facts, node):
            continue
        if on_main_only(facts, node) or enclosing_with(facts, node, f"{RUNTIME}.main_first") is not None:
            continue
        skipped = list(leaves_out(facts, node))
        decided = [*node.body, *node.orelse, *skipped]
        if any(training.runs(part) or needs(part, needing) for part in decided) or any(
            needs(part, once) for part in skipped
        ):
            yield node


def downloads(facts: Facts) -> list[ast.Call]:
    """Calls that may download."""
    return [call for name, group in facts.calls.items() for call in group if fetches(facts, call, name)]


def needs(part: ast.AST, calls: set[int]) -> bool:
    """Whether one of these calls stands in a statement."""
    return any(id(node) in calls for node in ast.walk(part))


def leaves_out(facts: Facts, node: ast.If) -> Iterator[ast.stmt]:
    """The statements after a condition that a branch of it skips by leaving the function or the loop."""
    inner = [item for part in [*node.body, *node.orelse] for item in ast.walk(part)]
    leaves = {type(item) for item in inner if isinstance(item, PATHS)}
    child: ast.AST = node
    for item in ancestors(facts, node) if leaves else ():
        yield from after(facts, child)
        ends = isinstance(item, LOOPS) and ast.Return not in leaves
        if ends or isinstance(item, (*FUNCTIONS, ast.ClassDef, ast.Module)):
            return
        child = item
