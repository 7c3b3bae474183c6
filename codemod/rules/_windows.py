"""What of a training step happens once per accumulation window; no rule by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from ..facts.values import Role
from ..findings import Finding, finding
from ._source import (
    FUNCTIONS,
    LOOPS,
    Run,
    ancestors,
    calls,
    contains,
    dotted,
    has_role,
    position,
    runtime_calls,
    statements_around,
)

if TYPE_CHECKING:
    from ..facts.model import Facts, Step

Edge = Literal["starts", "ends"]


def edges(step: Step, schedulers: list[ast.Call]) -> Iterator[tuple[ast.Call, Edge]]:
    """Calls of a step that run once per window, and at which end of it."""
    last = max((position(call) for call in step.optimizer_steps), default=(0, 0))
    for call in step.zero_grads:
        yield call, "ends" if position(call) > last else "starts"
    for call in (*step.clips, *step.optimizer_steps, *schedulers):
        yield call, "ends"


def obstacle(facts: Facts, step: Step) -> Finding | None:
    """Why a step can't have a window, `None` if it can."""
    if not step.backwards:
        return finding("DST205", step.optimizer_steps[0])
    first_step = min(position(call) for call in step.optimizer_steps)
    late = [call for call in step.backwards if position(call) > first_step]
    if late:
        return finding("DST211", late[0])
    for call in step.optimizer_steps:
        for item in ancestors(facts, call):
            if isinstance(item, (*LOOPS, *FUNCTIONS)):
                break
            if not isinstance(item, ast.If) or contains(item, step.backwards):
                continue
            if any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) for node in ast.walk(item.test)):
                return finding("DST204", item)
    if step.loop is not None and shares_its_batch(facts, step.loop):
        message = "several steps for one batch: each would need a window of its own over the batches that follow"
        return finding("DST211", step.loop, message)
    for item in ancestors(facts, step.backwards[0]):
        if isinstance(item, (*LOOPS, *FUNCTIONS)):
            break
        if isinstance(item, (ast.If, ast.Try)) and not contains(item, [forward.call for forward in step.forwards]):
            hint = "run training and evaluation in loops of their own, or leave out --accumulate"
            return finding("DST205", item, "the same loop body trains and evaluates, by a condition", hint)
    return None


def shares_its_batch(facts: Facts, loop: ast.stmt) -> bool:
    """Whether a loop steps again and again on the batch that a loop around it fetched: `for net, opt in zip(…)`."""
    if fetches(facts, loop):
        return False
    for item in ancestors(facts, loop):
        if isinstance(item, FUNCTIONS):
            return False
        if isinstance(item, LOOPS) and fetches(facts, item):
            return True
    return False


def fetches(facts: Facts, loop: ast.AST) -> bool:
    """Whether an iteration of a loop gets a batch of its own: from a loader, by `next`, or from a hand-made one."""
    return over_loader(facts, loop) or contains(loop, [*splits(facts), *calls(facts, "builtins.next")])


def over_loader(facts: Facts, loop: ast.AST) -> bool:
    """Whether a loop goes over a loader (or, for a `while`, uses one inside)."""
    source = loop.iter if isinstance(loop, (ast.For, ast.AsyncFor)) else loop
    return any(isinstance(node, ast.expr) and has_role(facts, node, Role.LOADER) for node in ast.walk(source))


def made_by_hand(facts: Facts, loop: ast.AST) -> bool:
    """Whether the batches of a loop come from no loader."""
    return not over_loader(facts, loop) and contains(loop, splits(facts))


def splits(facts: Facts) -> list[ast.expr]:
    """Expressions that are whole batches, split already or to be split."""
    return [item.node for item in facts.splits] + [*runtime_calls(facts, "split")]


def lifted(facts: Facts, call: ast.Call, apart: list[ast.Call], run: Run) -> ast.stmt:
    """The outermost statement of a run that holds a call and no forward or backward: `if args.clip: clip(…)`."""
    best = facts.statement(call)
    members = {id(item) for item in run.block}
    for statement in statements_around(facts, call):
        if contains(statement, apart):
            break
        best = statement
        if id(statement) in members:
            break
    return best


def counters(facts: Facts, step: Step, run: Run) -> list[ast.stmt]:
    """Statements `count += 1` beside a step whose count decides or schedules something and divides nothing."""
    found: list[ast.stmt] = []
    for statement in run.block:
        if not (isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add)):
            continue
        if not (isinstance(statement.value, ast.Constant) and statement.value.value == 1):
            continue
        name = dotted(statement.target)
        if name is not None and step.loop is not None and counts_steps(facts, name):
            found.append(statement)
    return found


def counts_steps(facts: Facts, name: str) -> bool:
    """Whether a count is compared, taken modulo, or given to a function, and never a divisor."""
    decides = False
    for node in ast.walk(facts.tree):
        if dotted(node) != name or not isinstance(getattr(node, "ctx", None), ast.Load):
            continue
        parent = facts.parents[node]
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Div, ast.FloorDiv)) and parent.right is node:
            return False
        decides = decides or isinstance(parent, ast.Compare)
        decides = decides or (isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod) and parent.left is node)
    return decides


def with_neighbours(run: Run, counted: list[ast.stmt]) -> Run:
    """The run with the counters that stand right before or after it."""
    first, last = run.first, run.last
    marks = {id(item) for item in counted}
    while first > 0 and id(run.block[first - 1]) in marks:
        first -= 1
    while last + 1 < len(run.block) and id(run.block[last + 1]) in marks:
        last += 1
    return Run(run.block, first, last)


def tests_of(facts: Facts, counted: list[ast.stmt], run: Run) -> list[ast.stmt]:
    """Statements after a window that are conditional on a count: between two steps they would run again and again."""
    names = {dotted(item.target) for item in counted if isinstance(item, ast.AugAssign)}
    return [
        item
        for item in run.block[run.last + 1 :]
        if isinstance(item, ast.If) and any(dotted(node) in names for node in ast.walk(item.test))
    ]
