"""What of a training step happens once per accumulation window; no rule by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from ..facts.values import Role
from ..findings import Finding, finding
from ._accumulated import accumulated, later
from ._order import exclusive
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


def edges(facts: Facts, step: Step, schedulers: list[ast.Call]) -> Iterator[tuple[ast.expr, Edge]]:
    """What of a step runs once per window, and at which end of it."""
    for call in step.zero_grads:
        own = [item for item in step.optimizer_steps if not exclusive(facts, call, item)]
        yield call, "ends" if own and position(call) > max(map(position, own)) else "starts"
    for call in (*step.clips, *step.optimizer_steps, *schedulers):
        yield call, "ends"
    yield from ((node, "ends") for node in gradients(facts, step))


def gradients(facts: Facts, step: Step) -> Iterator[ast.Attribute]:
    """Where the script itself reads or changes gradients of parameters, after a backward of the step."""
    first = min(map(position, step.backwards))
    for statement in step.body:
        for node in ast.walk(statement):
            late = isinstance(node, ast.Attribute) and node.attr == "grad" and position(node) > first
            if late and isinstance(node, ast.Attribute) and facts.value(node.value).is_param:
                yield node


def obstacle(facts: Facts, step: Step) -> Finding | None:
    """Why a step can't have a window, `None` if it can."""
    if not step.backwards:
        return finding("DST205", step.optimizer_steps[0])
    by_hand = accumulated(facts, step)
    if by_hand is not None:
        return finding("DST204", by_hand)
    late = [call for call in step.backwards if any(later(facts, call, item) for item in step.optimizer_steps)]
    if late:
        return finding("DST211", late[0])
    inner = [item for call in step.backwards for item in ancestors(facts, call) if isinstance(item, LOOPS)]
    for loop in inner:
        if not contains(loop, step.optimizer_steps) and fetches(facts, loop):
            return finding("DST204", loop, "the script already adds up the gradients of the batches of this loop")
    if step.loop is not None and shares_its_batch(facts, step.loop):
        message = "several steps for one batch: each would need a window of its own over the batches that follow"
        return finding("DST211", step.loop, message)
    for item in ancestors(facts, step.backwards[0]):
        if isinstance(item, (*LOOPS, *FUNCTIONS)):
            break
        if isinstance(item, ast.If) and contains(item.body, step.backwards) and contains(item.orelse, step.backwards):
            continue  # in either way
        if isinstance(item, (ast.If, ast.Try)) and not contains(item, [forward.call for forward in step.forwards]):
            hint = "run training and evaluation in loops of their own, or leave out --accumulate"
            return finding("DST205", item, "the same loop body trains and evaluates, by a condition", hint)
    return None


def shares_its_batch(facts: Facts, loop: ast.stmt) -> bool:
    """Whether a loop steps again and again on a batch that was fetched outside of it: `for net, opt in zip(…)`."""
    if fetches(facts, loop):
        return False
    if repeats(facts, loop):
        return True
    for item in ancestors(facts, loop):
        if isinstance(item, FUNCTIONS):
            return False
        if isinstance(item, LOOPS) and fetches(facts, item):
            return True
    return False


def repeats(facts: Facts, loop: ast.AST) -> bool:
    """Whether a counting loop feeds models only with what was there before it: `x, y = next(iter(loader))`."""
    if not (isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call)):
        return False
    if facts.names.qualified(loop.iter.func) != "builtins.range":
        return False
    forwards = [item.call for item in facts.forwards if contains(loop, [item.call])]
    given = [part for call in forwards for item in call.args for part in ast.walk(item) if isinstance(part, ast.expr)]
    names = [part for part in given if isinstance(part, ast.Name) and facts.value(part).is_sample]
    bound = {part.id for part in ast.walk(loop) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return bool(names) and len(names) == len(given) and not any(name.id in bound for name in names)


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


def lifted(facts: Facts, call: ast.expr, apart: list[ast.Call], run: Run) -> ast.stmt:
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
    for node in facts.nodes:
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
