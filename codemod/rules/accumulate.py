"""Make one optimizer step of several loader batches, with `--accumulate N` only.

    +with runtime.accumulate() as window:
    +    if window.starts:
    +        optimizer.zero_grad()
         loss = criterion(model(x), y)
         loss.backward()
    +    if window.ends:
    +        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    +        optimizer.step()
    +        scheduler.step()

What happens once per window is said so, in the user's order, instead of hidden in wrappers: clearing at its start,
clipping, steps, per-step schedulers and step counters at its end (huggingface/transformers#34191,
karpathy/nanoGPT#207). With `--accumulate 1` the blocks go.
Refused: scripts that accumulate by themselves, optimizers that step in turn within an iteration, closures.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Dedent, Enclose, Ref, Replace, Span
from ..findings import finding
from . import Outcome, rule
from ._inexact import inexact, outliving
from ._lengths import lengths
from ._order import is_alternative
from ._schedulers import per_step_schedulers
from ._schedules import schedules
from ._source import (
    dotted,
    free_name,
    function_of,
    index_in,
    is_runtime_call,
    position,
    runtime_calls,
    setting,
    smallest_run,
)
from ._windows import Edge, counters, edges, lifted, made_by_hand, obstacle, tests_of, with_neighbours

if TYPE_CHECKING:
    from ..facts.model import Facts, Step
    from ..options import Options

WHOLE = "batches that are left whole don't tell how many rows they have: a short last batch weighs like the others"
WHOLE_HINT = "see DST118 to have them split, or choose sizes that make whole windows (drop_last=True)"


@rule("accumulate", order=30)
def accumulate(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`with runtime.accumulate() as window:` around training steps."""
    size = setting(facts, options, "accumulate")
    if not facts.is_training or size is None:
        return
    if size == 1:
        yield from removed(facts)
        return
    for step in facts.steps:
        if step.optimizer_steps:
            yield from windowed(facts, step)


def windowed(facts: Facts, step: Step) -> Iterator[Outcome]:
    """The window of one training step, or why it can't have one."""
    found = obstacle(facts, step)
    if found is not None:
        yield found
        return
    block = existing(facts, step)
    forwards = [
        item.call for item in step.forwards if function_of(facts, item.call) is function_of(facts, step.backwards[0])
    ]
    schedulers = per_step_schedulers(facts, step)
    inside = [*step.zero_grads, *forwards, *step.backwards, *step.clips, *step.optimizer_steps, *schedulers]
    run = smallest_run(facts, inside)
    if run is None:
        yield finding("DST205", step.backwards[0])
        return
    counted = counters(facts, step, run)
    if block is None:
        run = with_neighbours(run, counted)
    window = name_of(block) if block is not None else free_name(facts, "window", "accumulation")
    if block is None:
        params = {"runtime": facts.runtime_name, "window": window}
        first, last = Span.of(run.block[run.first]), Span.of(run.block[run.last])
        yield Enclose(first, last, "accumulate", params, kind="accumulate")
    if step.loop is not None and made_by_hand(facts, step.loop) and not (block and tells_last(block)):
        yield finding("DST214", step.loop)
    if any(item.code == "DST118" for item in facts.findings):
        yield finding("DST214", step.backwards[0], WHOLE, WHOLE_HINT, level="warning")
    marks: dict[int, tuple[ast.stmt, Edge]] = {}
    for call, place in edges(facts, step, schedulers):
        statement = lifted(facts, call, [*forwards, *step.backwards], run)
        marks[id(statement)] = statement, place
    first_use = position(min([*forwards, *step.backwards], key=position))
    after: list[tuple[ast.stmt, Edge]] = [(test, "ends") for test in tests_of(facts, counted, run)]
    for counter in counted:
        edge: Edge = "starts" if position(counter) < first_use else "ends"
        if run.first <= index_in(run.block, counter) <= run.last:
            marks[id(counter)] = counter, edge
        else:
            after.append((counter, edge))
        yield finding("DST207", counter)
    yield from inexact(facts, step)
    yield from lengths(facts, schedulers)
    yield from schedules(facts, step, schedulers, counted)
    if block is None:
        yield from outliving(facts, [statement for statement, edge in [*marks.values(), *after] if edge == "ends"])
    yield from conditions(facts, list(marks.values()), window)
    yield from conditions(facts, after, window)


def existing(facts: Facts, step: Step) -> ast.With | None:
    """The accumulation block that is around a step already."""
    node: ast.AST | None = step.backwards[0]
    while node is not None and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
        if isinstance(node, ast.With) and any(
            is_runtime_call(facts, item.context_expr, "accumulate") for item in node.items
        ):
            return node
        node = facts.parents.get(node)
    return None


def tells_last(block: ast.With) -> bool:
    """Whether an accumulation block is told which batch is the last."""
    call = block.items[0].context_expr
    return isinstance(call, ast.Call) and bool(call.args or call.keywords)


def name_of(block: ast.With) -> str:
    """What an accumulation block calls its window."""
    name = block.items[0].optional_vars
    return name.id if isinstance(name, ast.Name) else "window"


def conditions(facts: Facts, marks: list[tuple[ast.stmt, Edge]], window: str) -> Iterator[Outcome]:
    """`if window.starts:` and `if window.ends:`; neighbours with the same edge share one."""
    open_run: list[ast.stmt] = []
    open_edge: Edge = "starts"
    pending = [
        item for item in sorted(marks, key=lambda item: position(item[0])) if not is_conditional(facts, item[0], window)
    ]
    for statement, edge in [*pending, (None, "ends")]:
        if statement is not None and open_run and edge == open_edge:
            block = facts.block(open_run[-1])
            if block is facts.block(statement) and index_in(block, statement) == index_in(block, open_run[-1]) + 1:
                open_run.append(statement)
                continue
        if open_run:
            params = {"window": window, "edge": open_edge}
            yield Enclose(Span.of(open_run[0]), Span.of(open_run[-1]), "window", params, kind="accumulate")
        open_run, open_edge = ([] if statement is None else [statement]), edge


def is_conditional(facts: Facts, statement: ast.stmt, window: str) -> bool:
    """Whether a statement stands under (or is) a condition on the window already."""
    node: ast.AST | None = statement
    while node is not None and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
        if isinstance(node, ast.If) and any(reads_window(item, window) for item in ast.walk(node.test)):
            return True
        node = facts.parents.get(node)
    return False


def reads_window(node: ast.AST, window: str) -> bool:
    """Whether a node is `window.starts` or `window.ends`."""
    return dotted(node) in (f"{window}.starts", f"{window}.ends")


def removed(facts: Facts) -> Iterator[Outcome]:
    """The blocks of an earlier conversion go, unless their window is used in other ways."""
    groups: dict[tuple[int, str], list[ast.With]] = {}
    for call in runtime_calls(facts, "accumulate"):
        block = facts.parents[facts.parents[call]]
        if isinstance(block, ast.With) and len(block.items) == 1:
            groups.setdefault((id(function_of(facts, block)), name_of(block)), []).append(block)
    for (_, window), blocks in groups.items():
        nodes = list(ast.walk(function_of(facts, blocks[0])))
        tests = [node for node in nodes if isinstance(node, ast.If) and reads_window(node.test, window)]
        uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == window]
        plain = [node for node in tests if not node.orelse and not is_alternative(facts, node)]
        if len(uses) == len(plain) + len(blocks):
            yield from (Dedent(Span.of(node), kind="accumulate") for node in [*blocks, *plain])
    for call in runtime_calls(facts, "averaged"):
        yield Replace(Span.of(call), "part", {"part": Ref.to(call.args[0])}, kind="accumulate")
