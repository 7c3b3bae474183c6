"""Run forward and loss in the precision of the run.

    +with runtime.autocast():
    +    logits = model(image)
    +    loss = runtime.mean(F.cross_entropy(logits, label))
     runtime.backward(loss)

The block holds the fewest consecutive statements from the first forward to the loss; a backward or a step never. An
evaluation has its forwards in one, and a loss that is assigned. Blocks of the script itself are not doubled. Under an
explicit `--precision fp32` there are none, and those of an earlier conversion go.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Dedent, Enclose, Span
from . import Outcome, rule
from ._amp import enters_autocast, names_autocast
from ._losses import definitions, measured
from ._source import (
    RUNTIME,
    Definition,
    Run,
    ancestors,
    calls,
    contains,
    function_of,
    in_module_class,
    index_in,
    position,
    runtime_calls,
    setting,
    smallest_run,
)

if TYPE_CHECKING:
    from ..facts.model import Facts, Forward, Step
    from ..options import Options


@rule("autocast", order=35)
def autocast(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`with runtime.autocast():` around forwards and losses."""
    if setting(facts, options, "precision") == "fp32":
        yield from removed(facts)
        return
    params = {"runtime": facts.runtime_name}
    for run in merged(list(runs(facts))):
        first, last = Span.of(run.block[run.first]), Span.of(run.block[run.last])
        yield Enclose(first, last, "autocast", params, kind="autocast")


def removed(facts: Facts) -> Iterator[Outcome]:
    """The blocks of an earlier conversion go."""
    for call in runtime_calls(facts, "autocast"):
        item = facts.parents[call]
        block = facts.parents[item]
        if isinstance(block, ast.With) and len(block.items) == 1:
            yield Dedent(Span.of(block), kind="autocast")


def runs(facts: Facts) -> Iterator[Run]:
    """The statements to enclose, found from steps first, then from the remaining forwards."""
    done: set[int] = set()
    for step in facts.steps:
        for forwards, backwards in phases(facts, step):
            done.update(id(forward.call) for forward in forwards)
            nodes = [forward.call for forward in forwards]
            ends = [item for call in backwards for item in definitions(facts, call, nodes[0])]
            yield from fitting(facts, forwards, smallest_run(facts, [*nodes, *ends]))
    for forward in facts.forwards:
        if id(forward.call) not in done:
            ends = measured(facts, forward.call)
            yield from fitting(facts, [forward], smallest_run(facts, [forward.call, *ends]))


def phases(facts: Facts, step: Step) -> Iterator[tuple[list[Forward], list[ast.Call]]]:
    """Forwards of a step with the backward calls that follow them, before the next forward."""
    functions = {id(function_of(facts, call)) for call in step.backwards}
    events: list[tuple[ast.Call, Forward | None]] = [(call, None) for call in step.backwards]
    own = [forward for forward in step.forwards if id(function_of(facts, forward.call)) in functions]
    events += [(forward.call, forward) for forward in own]
    forwards: list[Forward] = []
    backwards: list[ast.Call] = []
    for call, forward in sorted(events, key=lambda event: position(event[0])):
        if forward is None:
            backwards.append(call)
            continue
        if backwards and forwards:
            yield forwards, backwards
        if backwards:
            forwards, backwards = [], []
        forwards.append(forward)
    if forwards:
        yield forwards, backwards


def fitting(facts: Facts, forwards: list[Forward], run: Run | None) -> Iterator[Run]:
    """The run, or one for each forward where it would hold a backward, a step or a gradient."""
    forwards = [item for item in forwards if not is_covered(facts, item.call) and not is_inner(facts, item.call)]
    if not forwards:
        return
    if run is not None and not contains(run.statements, apart(facts)):
        yield run
        return
    for item in forwards:
        statement = facts.statement(item.call)
        if not contains(statement, apart(facts)):
            block = facts.block(statement)
            at = index_in(block, statement)
            yield Run(block, at, at)


def is_inner(facts: Facts, call: ast.Call) -> bool:
    """Whether a call stands in the `forward` of a module: what surrounds that one covers it."""
    return getattr(function_of(facts, call), "name", None) == "forward" and in_module_class(facts, call)


def is_covered(facts: Facts, call: ast.Call) -> bool:
    """Whether a forward is under autocast already."""
    for item in ancestors(facts, call):
        if isinstance(item, ast.With) and any(enters_autocast(facts, entry.context_expr) for entry in item.items):
            return True
        if isinstance(item, Definition):
            return any(names_autocast(facts, decorator) for decorator in item.decorator_list)
    return False


def apart(facts: Facts) -> list[ast.Call]:
    """Calls that stay outside: backward passes, clipping, steps, inner gradients."""
    found = calls(facts, "torch.autograd.grad", f"{RUNTIME}.grad")
    for step in facts.steps:
        found += [*step.backwards, *step.clips, *step.optimizer_steps, *step.scheduler_steps]
    return found


def merged(found: list[Run]) -> list[Run]:
    """Overlapping and adjacent runs of a block become one; those inside another go."""
    result: list[Run] = []
    for run in sorted(found, key=lambda item: (position(item.block[item.first]), -item.last)):
        last = result[-1] if result else None
        if last is not None and last.block is run.block and run.first <= last.last + 1:
            result[-1] = Run(last.block, last.first, max(last.last, run.last))
        elif not any(outer.holds(run.block[run.first]) for outer in result):
            result.append(run)
    return result
