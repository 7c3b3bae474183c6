"""Hand models and optimizers to the backend, once, where both are built.

     optimizer = optim.Adam(model.parameters(), lr=args.lr)
    +runtime.prepare(model, optimizer)
     scheduler = StepLR(optimizer, step_size=1)

The call stands after the last optimizer of a block and after what still moves or initialises the model, and before
anything that runs it (facebookresearch/fairscale#423, pytorch/pytorch#149205, mosaicml/composer#3493,
huggingface/accelerate#253). Nothing is rebound: both keep their identity on every backend. A prepare call that is
already there takes what was added later.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..dataclass import dataclass
from ..edits import Callee, InsertAfter, Span, Wrap
from ..findings import finding
from ..program import is_main_guard
from . import Outcome, rule
from ._settle import Training, last_settling
from ._source import function_of, index_in, is_runtime_call, method_calls, position, runtime_calls, smallest_run

if TYPE_CHECKING:
    from ..facts.model import Facts, OptimizerFact
    from ..options import Options


BUILT_LATE = "This optimizer is built in a loop in which its model has run before: it must be prepared before that"


@dataclass
class Place:
    """Where one prepare call goes: after `block[index]`; and what it names."""

    block: list[ast.stmt]
    index: int
    models: list[str]
    optimizers: list[str]

    @property
    def statement(self) -> ast.stmt:
        """The statement that it goes after."""
        return self.block[self.index]


@rule("prepare", order=20)
def prepare(facts: Facts, options: Options) -> Iterator[Outcome]:
    """One `runtime.prepare(models…, optimizers…)` for the optimizers of a block."""
    training = facts.worked_out(Training)
    reported = {item.span for item in facts.findings}
    for fact in facts.optimizers:
        if fact.late and not has_run_prepared(facts, fact):
            yield finding("DST209", fact.call, BUILT_LATE, "build it before the loop")
        elif fact.text is None and fact.in_place:
            yield from in_place(facts, fact)
        elif fact.text is None:
            yield finding("DST209", fact.call)
        elif not fact.models and Span.of(fact.call) not in reported:
            yield finding("DST202", fact.call)
    found = [*places(facts), *places_of_updates(facts)]
    found.sort(key=lambda place: position(place.statement))
    for place in merged(facts, training, [item for item in found if not is_prepared(facts, item)]):
        yield from prepared(facts, training, place)


def in_place(facts: Facts, fact: OptimizerFact) -> Iterator[Outcome]:
    """An optimizer that gets no name is prepared where it is built: `Trainer(net, runtime.prepare(net, SGD(…)))`."""
    if is_runtime_call(facts, facts.parents.get(fact.call), "prepare"):
        return
    if is_moved_later(facts, fact):
        message = "This optimizer has no name where it is built, and its model is moved to a device only later"
        yield finding("DST209", fact.call, message, "move the model before; or assign the optimizer to a variable")
    else:
        params = {"runtime": facts.runtime_name, "objects": fact.models}
        yield Wrap(Span.of(fact.call), "prepared", params, kind="prepare")


def is_moved_later(facts: Facts, fact: OptimizerFact) -> bool:
    """Whether a function other than the one that builds an optimizer moves its model."""
    owned = {cell for part in ast.walk(fact.call) if isinstance(part, ast.expr) for cell in facts.value(part).params}
    for file in facts.program:
        for call, callee in method_calls(file, "to", "cuda"):
            here = file is facts and function_of(file, call) is function_of(facts, fact.call)
            if file.value(callee.value).objs & owned and not (here and position(call) < position(fact.call)):
                return True
    return False


def has_run_prepared(facts: Facts, fact: OptimizerFact) -> bool:
    """Whether a model was handed over before it ran: a further optimizer may come later."""
    named = {facts.text(item) for call in runtime_calls(facts, "prepare") for item in call.args}
    return bool(set(fact.models) & named)


def places(facts: Facts) -> list[Place]:
    """A place for each optimizer, after the whole `if` where its branches build the same one."""
    groups: dict[tuple[int, str], list[OptimizerFact]] = {}
    for fact in sorted(facts.optimizers, key=lambda item: position(item.call)):
        if fact.text is not None and fact.models:
            groups.setdefault((id(function_of(facts, fact.statement)), fact.text), []).append(fact)
    found: list[Place] = []
    for (_, text), group in groups.items():
        run = smallest_run(facts, [fact.statement for fact in group])
        branches = run is not None and run.first == run.last and isinstance(run.block[run.first], (ast.If, ast.Try))
        for members in [group] if branches and len(group) > 1 else [[fact] for fact in group]:
            statement = run.block[run.first] if run and len(members) > 1 else members[0].statement
            block = facts.block(statement)
            models = list(dict.fromkeys(model for fact in members for model in fact.models))
            found.append(Place(block, index_in(block, statement), models, [text]))
    return sorted(found, key=lambda place: position(place.statement))


def places_of_updates(facts: Facts) -> list[Place]:
    """A place for each model that the program updates by hand, unless its optimizer, which is always built, has one."""
    by_optimizer = {
        (function_of(facts, o.statement), m) for o in facts.optimizers if is_always(facts, o) for m in o.models
    }
    named: dict[tuple[int, str], list[ast.stmt]] = {}
    for item in (item for file in facts.program for item in file.updates):
        for statement, text in item.models:
            if facts.holds(statement) and (function_of(facts, statement), text) not in by_optimizer:
                named.setdefault((id(function_of(facts, statement)), text), []).append(statement)
    found: list[Place] = []
    for (_, text), statements in named.items():
        run = smallest_run(facts, statements)
        together = run is not None and (run.first == run.last or len(statements) == 1)
        for statement in statements if run is None or not together else [run.block[run.last]]:
            block = facts.block(statement)
            found.append(Place(block, index_in(block, statement), [text], []))
    return found


def is_always(facts: Facts, optimizer: OptimizerFact) -> bool:
    """Whether no condition decides, within its function, if an optimizer is built."""
    current = facts.parents.get(optimizer.statement)
    while current is not None and not isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
        if isinstance(current, (ast.If, ast.Try)) and not is_main_guard(current):
            return False
        current = facts.parents.get(current)
    return True


def merged(facts: Facts, training: Training, found: list[Place]) -> list[Place]:
    """Places of one block become one unless something between trains; each moves behind what settles its models."""
    result: list[Place] = []
    for place in found:
        last = next((item for item in reversed(result) if item.block is place.block), None)
        if last is not None and not any(training.runs(item) for item in place.block[last.index + 1 : place.index]):
            last.index = place.index
            last.models = list(dict.fromkeys(last.models + place.models))
            last.optimizers = list(dict.fromkeys(last.optimizers + place.optimizers))
        else:
            result.append(place)
    for place in result:
        place.index = last_settling(facts, training, place.block, place.index, place.models, place.optimizers)
    for index, place in enumerate(result):
        earlier = [item for item in result[:index] if item.block is place.block]
        place.models = [model for model in place.models if not known(facts, earlier, place, model)]
    return [place for place in result if not any(covers(facts, training, other, place) for other in result)]


def covers(facts: Facts, training: Training, outer: Place, place: Place) -> bool:
    """Whether a place lies in a branch before another one that names the same: `if resume: model, optimizer = …`."""
    if outer is place or not {*place.models, *place.optimizers} <= {*outer.models, *outer.optimizers}:
        return False
    inside: ast.AST | None = facts.parents.get(place.statement)
    while inside is not None and not isinstance(inside, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if isinstance(inside, ast.stmt) and inside in outer.block[: outer.index + 1]:
            return not any(training.runs(item) for item in outer.block[index_in(outer.block, inside) : outer.index + 1])
        inside = facts.parents.get(inside)
    return False


def known(facts: Facts, earlier: list[Place], place: Place, model: str) -> bool:
    """Whether an earlier place of the block prepared a model that has not been built anew since."""
    for item in earlier:
        between = place.block[item.index + 1 : place.index + 1]
        if model in item.models and not any(assigns(facts, statement, model) for statement in between):
            return True
    return False


def assigns(facts: Facts, statement: ast.stmt, text: str) -> bool:
    """Whether a statement assigns to an expression."""
    return any(
        isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
        and isinstance(node.ctx, ast.Store)
        and facts.text(node) == text
        for node in ast.walk(statement)
    )


def existing(facts: Facts, place: Place) -> list[ast.Call]:
    """The prepare calls that stand after a place in its function."""
    function = function_of(facts, place.statement)
    return [
        call
        for call in runtime_calls(facts, "prepare")
        if function_of(facts, call) is function and position(facts.statement(call)) > position(place.statement)
    ]


def is_prepared(facts: Facts, place: Place) -> bool:
    """Whether a call after the construction of an optimizer, or of a model without one, names it already."""
    named = {facts.text(item) for call in existing(facts, place) for item in call.args}
    return all(text in named for text in place.optimizers or place.models)


def prepared(facts: Facts, training: Training, place: Place) -> Iterator[Outcome]:
    """The edit for one place: a longer call, or a new one."""
    calls = existing(facts, place)
    named = {facts.text(item) for call in calls for item in call.args}
    objects = [text for text in (*place.models, *place.optimizers) if text not in named]
    for call in calls:
        statement = facts.statement(call)
        if facts.block(statement) is not place.block:
            continue
        between = place.block[place.index + 1 : index_in(place.block, statement)]
        if not any(training.runs(item) for item in between):
            yield Callee(Span.of(call), "{{ callee }}", {}, tuple(objects), kind="prepare")
            return
    params = {"runtime": facts.runtime_name, "objects": objects}
    yield InsertAfter(Span.of(place.statement), "prepare", params, kind="prepare")
