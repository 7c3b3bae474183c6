"""A branch that leaves a loop, or takes part in a step, by a number of one process.

    if loss.item() > 10:        # another process may go on, and wait for this one for ever
        continue

Also one by its clock. Where the process ends itself, the launcher ends the others: that is no hang
(Lightning-AI/pytorch-lightning#379, NVIDIA-NeMo/Automodel#2468, pytorch/pytorch#22834).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.places import last_name
from ..facts.ranks import Mark, is_own, is_swayed
from ..findings import Finding, finding
from ..rules._source import LOOPS, is_exit
from . import Kind, check
from ._collectives import around, takes_part
from ._collectives import of_program as collectives_of

if TYPE_CHECKING:
    from ..facts.model import Facts

ALIKE = ("KeyboardInterrupt", "StopIteration", "SystemExit")
"""What ends the run, or comes in all processes at once."""
SWALLOWED = "A process that fails here goes on without the others, which wait for it for ever."


@check("decision", Kind.BY_HAND)
def decision(facts: Facts) -> Iterator[Finding]:
    """`break`, `continue`, `return` and collectives that depend on what is one process's own."""
    for node in facts.nodes:
        if isinstance(node, ast.Try):
            yield from swallowed(facts, node)
        if not isinstance(node, (ast.If, ast.While)):
            continue
        made = [facts.value(part) for part in parts(node.test)]
        agreed = [value for value in made if Mark.AGREED in value.ranks or Mark.RANK in value.ranks]
        timed = any(Mark.CLOCK in value.ranks for value in made) and not agreed
        found = timed or any(map(is_own, made)) or any(map(is_swayed, made))
        if not found or not steers(facts, node):
            continue
        what = "the clock of one process" if timed else "a number of one process"
        message = f"This depends on {what}: others may decide otherwise, and wait for it for ever."
        yield finding("DST652", node.test, message)


def swallowed(facts: Facts, node: ast.Try) -> Iterator[Finding]:
    """An error of one process that it goes on after, around what all of them must do."""
    if not any(isinstance(item, LOOPS) for item in around(facts, node)):
        return
    steps = [inner for item in node.body for inner in ast.walk(item) if takes_part(facts, inner)]
    if len(steps) < 1 or not any(is_backward(facts, item) for item in steps):
        return
    for handler in node.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        agreed = all(kind is not None and last_name(kind) in ALIKE for kind in kinds)
        inner = [part for item in handler.body for part in ast.walk(item)]
        ends = any(isinstance(part, ast.Raise) or is_exit(facts, part) for part in inner)
        if not agreed and not ends:
            yield finding("DST652", handler, SWALLOWED)


def is_backward(facts: Facts, node: ast.AST) -> bool:
    """Whether a call sends gradients, itself or in a function of the program."""
    return isinstance(node, ast.Call) and collectives_of(facts).of(facts, node) == "backward"


def parts(test: ast.expr) -> Iterator[ast.expr]:
    """The conditions of which a test is made."""
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from parts(part)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from parts(test.operand)
    else:
        yield test


def steers(facts: Facts, node: ast.If | ast.While) -> bool:
    """Whether a branch changes what the process takes part in."""
    if isinstance(node, ast.While):
        return any(takes_part(facts, inner) for statement in node.body for inner in ast.walk(statement))
    loop = any(isinstance(item, LOOPS) for item in around(facts, node))
    for statement in [*node.body, *node.orelse]:
        for inner in ast.walk(statement):
            if isinstance(inner, (ast.Break, ast.Continue)) and loop and leaves(facts, inner, node):
                return True
            if isinstance(inner, ast.Return) and loop:
                return True
            if takes_part(facts, inner):
                return True
    return False


def leaves(facts: Facts, node: ast.AST, branch: ast.AST) -> bool:
    """Whether a `break` or `continue` is of a loop around the branch, and one in which processes meet."""
    for item in around(facts, node):
        if item is branch:
            return any(meet(facts, loop) for loop in around(facts, branch) if isinstance(loop, LOOPS))
        if isinstance(item, LOOPS):
            return False
    return False


def meet(facts: Facts, loop: ast.AST) -> bool:
    """Whether processes meet in a loop."""
    return any(takes_part(facts, inner) for inner in ast.walk(loop))
