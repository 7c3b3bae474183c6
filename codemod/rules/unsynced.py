"""Gradients that a script adds up by itself over several batches are sent once per step, not after every backward.

     loss = loss / k
    -loss.backward()
    +runtime.backward(loss, sync=(i + 1) % k == 0 or i + 1 == len(loader))
     if (i + 1) % k == 0 or i + 1 == len(loader):
    -    optimizer.step()
    +    runtime.step(optimizer)
         optimizer.zero_grad()

The condition is the script's own, as far as it can be told before the backward; the loss is divided by the script, and
by nobody else. It only says when gradients are needed: clipping and steps complete what a window cut short has left, so
that a last step after the loop is exact too (pytorch's `no_sync`, huggingface/accelerate's `accumulate`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Argument, Ref, Span
from ..facts.values import Role
from ..findings import finding
from . import Outcome, rule
from ._accumulated import accumulated
from ._amp import folds
from ._source import (
    LOOPS,
    contains,
    function_of,
    has_closure,
    has_role,
    index_in,
    keyword_value,
    position,
    setting,
    statements_around,
)
from ._told import negated, plain, read, stored, told
from ._windows import fetches

if TYPE_CHECKING:
    from ..facts.model import Facts, Step
    from ..options import Options


@rule("unsynced", order=60)
def unsynced(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`sync=` of backwards that no step follows in every iteration."""
    if setting(facts, options, "accumulate") not in (None, 1):
        return
    conditions: dict[ast.Call, ast.expr | None] = {}
    seen: set[ast.Call] = set()
    steps: list[ast.AST] = []
    for step in sorted((s for s in facts.steps if s.optimizer_steps), key=depth):
        for call in step.backwards:
            fresh = call not in seen and keyword_value(call, "sync") is None
            seen.add(call)
            if fresh and adds_up(facts, step, call):
                conditions[call] = needed(facts, step, call)
                steps += users(facts, step)
    elsewhere = bool(conditions) and needs_elsewhere(facts, options, steps)
    for call, test in conditions.items():
        if test is None or elsewhere or has_gradient(call):
            yield finding("DST217", call)
        else:
            own = facts.holds(test)
            yield Argument(Span.of(call), "sync", Ref.to(test) if own else ast.unparse(test), kind="backward")


def adds_up(facts: Facts, step: Step, call: ast.Call) -> bool:
    """Whether a step is made of several runs of a backward."""
    loop = in_windows(facts, step, call)
    return accumulated(facts, step) is not None or (loop is not None and (counted(facts, loop) or fetches(facts, loop)))


def counted(facts: Facts, loop: ast.stmt) -> bool:
    """Whether a loop is `for i in range(n)`."""
    return last_of(facts, loop) is not None


def depth(step: Step) -> tuple[int, int]:
    """Steps of inner loops come first."""
    line, column = position(step.loop) if step.loop is not None else (0, 0)
    return -line, -column


def has_gradient(call: ast.Call) -> bool:
    """Whether a backward is given a gradient, and is written anew."""
    method = isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
    return keyword_value(call, "gradient") is not None or (method and len(call.args) > 1)


def needed(facts: Facts, step: Step, call: ast.Call) -> ast.expr | None:
    """When the gradients of a backward are needed in its iteration; `None` if that can't be told before it."""
    loop = in_windows(facts, step, call)
    if loop is not None:
        return last_of(facts, loop)
    wanted = users(facts, step)
    if any(has_closure(facts, item) for item in step.optimizer_steps):
        return None  # it computes its own gradients
    between: list[ast.stmt] = []
    for statement in statements_around(facts, call):
        block = facts.block(statement)
        rest = block[index_in(block, statement) + 1 :]
        if isinstance(statement, LOOPS):
            return None
        if contains(rest, wanted):
            return reached(facts, rest, wanted, between)
        between += rest
    return None


def reached(facts: Facts, block: list[ast.stmt], wanted: list[ast.AST], between: list[ast.stmt]) -> ast.expr | None:
    """When statements of a block are reached, told before others that run ahead of it; `None` if it can't be told."""
    for k, item in enumerate(block):
        before = [*between, *block[:k]]
        if isinstance(item, ast.If) and all(contains(item.body, [one]) for one in wanted):
            found, inner = told(facts, item.test, before), reached(facts, item.body, wanted, before)
            both = [part for part in (found, inner) if part is not None]
            return ast.BoolOp(ast.And(), both) if len(both) == 2 else found
        goes_on = isinstance(item, ast.If) and not item.orelse and isinstance(item.body[-1], ast.Continue)
        if goes_on and isinstance(item, ast.If) and all(contains(block[k + 1 :], [one]) for one in wanted):
            found = told(facts, item.test, before)
            return None if found is None else negated(found)
        if contains(item, wanted):
            return None
    return None


def users(facts: Facts, step: Step) -> list[ast.AST]:
    """What of a training step needs complete gradients."""
    first = min(map(position, step.backwards), default=(0, 0))
    nodes = [node for statement in step.body for node in ast.walk(statement)]
    unscaled = [node for node in nodes if is_scaler_use(facts, node)]
    return [
        *step.optimizer_steps,
        *step.clips,
        *unscaled,
        *(node for node in nodes if reads_gradient(facts, node) and position(node) > first),
    ]


def is_scaler_use(facts: Facts, node: ast.AST) -> bool:
    """Whether a node is a method of a scaler of torch that reads gradients."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr in ("unscale_", "step")
        and has_role(facts, node.value, Role.SCALER)
    )


def reads_gradient(facts: Facts, node: ast.AST) -> bool:
    """Whether a node is `.grad` of what may be a parameter."""
    if not (isinstance(node, ast.Attribute) and node.attr == "grad") or facts.names.qualified(node) is not None:
        return False
    value = facts.value(node.value)
    return value.is_param or not value.is_sample


def needs_elsewhere(facts: Facts, options: Options, known: list[ast.AST]) -> bool:
    """Whether gradients are read, past the runtime, where no window is known to end."""
    mine = set(known)
    for file in facts.program:
        for node in file.nodes:
            if node in mine:
                continue
            if reads_gradient(file, node) or (not folds(file, options) and is_scaler_use(file, node)):
                return True
    return False


def in_windows(facts: Facts, step: Step, call: ast.Call) -> ast.For | ast.While | None:
    """The loop over the batches of one window around a backward, after which the optimizer steps."""
    function = function_of(facts, call)
    for statement in statements_around(facts, call):
        if isinstance(statement, (ast.For, ast.While)):
            late = [item for item in step.optimizer_steps if position(item) > position(statement)]
            apart = not contains(statement, [*users(facts, step), *step.zero_grads])
            after = bool(late) and all(function_of(facts, item) is function for item in late)
            shared = any(item in facts.block(statement) for one in late for item in statements_around(facts, one))
            return statement if apart and after and shared else None
    return None


def last_of(facts: Facts, loop: ast.stmt) -> ast.expr | None:
    """The condition for the last iteration of `for i in range(n)`."""
    if not (isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call)):
        return None
    call = loop.iter
    if facts.names.qualified(call.func) != "builtins.range" or not 1 <= len(call.args) <= 2 or call.keywords:
        return None
    end = call.args[-1]
    changed: set[str | None] = set().union(*map(stored, loop.body))
    if not plain(facts, end) or changed & (read(end) | {loop.target.id}):
        return None
    last: ast.expr = ast.BinOp(end, ast.Sub(), ast.Constant(1))
    if isinstance(end, ast.Constant) and isinstance(end.value, int):
        last = ast.Constant(end.value - 1)
    return ast.Compare(ast.Name(loop.target.id, ast.Load()), [ast.Eq()], [last])
