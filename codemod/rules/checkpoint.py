"""Save and load through the runtime, so that files are the original's on every backend.

    -torch.save({"model": model.state_dict(), "epoch": epoch}, path)
    +runtime.save({"model": runtime.state_dict(model), "epoch": epoch}, path)

Parameters are gathered on all processes, the file is written by one, under the original's keys; what is loaded goes to
this process's device and shards (pytorch/pytorch#3805, huggingface/accelerate#2000, deepspeedai/DeepSpeed#4064,
pytorch/examples#969, pytorch/pytorch#82070). State of schedulers and other objects is the same on every process and
stays as it is. A note marks a state that is kept in a variable: sharded backends copy it, others don't.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Argument, Callee, Ref, Span
from ..facts.saved import LOADS, SAVES
from ..facts.values import Role
from ..findings import finding
from . import Outcome, rule
from ._fetched import of_program as fetched_of
from ._source import LOOPS, SHARDED, ancestors, calls, dotted, has_role, method_calls, setting

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

FILES = {**dict.fromkeys(SAVES, "save"), **dict.fromkeys(LOADS, "load")}


@rule("checkpoint")
def checkpoint(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`runtime.save`, `load`, `state_dict`, `load_state_dict` and `clone`."""
    fetched = fetched_of(facts)
    for name, ours in FILES.items():
        for call in calls(facts, name):
            if fetched.holds(call):
                continue
            yield renamed(facts, call, ours)
            if ours == "save" and call.args and has_role(facts, call.args[0], Role.MODEL):
                yield from pickled(facts, options, call)
                yield from unwrapped(facts, call)
    for call in calls(facts, "copy.deepcopy"):
        if len(call.args) == 1 and has_role(facts, call.args[0], Role.MODEL):
            yield renamed(facts, call, "clone")
    for call, callee in method_calls(facts, "state_dict", "load_state_dict"):
        yield from state(facts, options, call, callee)


def renamed(facts: Facts, call: ast.Call, name: str) -> Callee:
    """The same call of the runtime's function."""
    return Callee(Span.of(call), "call", {"runtime": facts.runtime_name, "name": name}, kind="checkpoint")


def pickled(facts: Facts, options: Options, call: ast.Call) -> Iterator[Outcome]:
    """A warning where a whole model is pickled and a sharded backend was asked for."""
    if setting(facts, options, "backend") in SHARDED:
        yield finding("DST702", call)


def unwrapped(facts: Facts, call: ast.Call) -> Iterator[Outcome]:
    """A warning where the whole model that is pickled was a `DataParallel` around it."""
    if facts.value(call.args[0]).wrapped:
        message = "the file holds the bare model: the DataParallel around it is not saved"
        hint = "load it without .module, or save model.state_dict(), whose keys stay as they were"
        yield finding("DST702", call, message, hint)


def state(facts: Facts, options: Options, call: ast.Call, callee: ast.Attribute) -> Iterator[Outcome]:
    """`model.state_dict()` and `model.load_state_dict(…)` of models and optimizers."""
    if not has_role(facts, callee.value, Role.MODEL, Role.OPTIMIZER) or is_super(facts, callee.value):
        return
    params = {"runtime": facts.runtime_name, "name": callee.attr}
    if callee.attr == "load_state_dict" or not (call.args or call.keywords):
        yield Callee(Span.of(call), "call", params, (Ref.to(callee.value),), kind="checkpoint")
        if facts.value(callee.value).wrapped:  # DataParallel goes, its keys stay
            yield Argument(Span.of(call), "prefix", '"module."', kind="checkpoint")
        sharded = setting(facts, options, "backend") in SHARDED
        if (
            sharded
            and callee.attr == "state_dict"
            and has_role(facts, callee.value, Role.MODEL)
            and parted(facts, call)
        ):
            yield Argument(Span.of(call), "host", "False", kind="checkpoint")
    if callee.attr == "state_dict" and has_role(facts, callee.value, Role.MODEL) and is_kept(facts, call):
        yield finding("DST703", call)


def is_super(facts: Facts, node: ast.expr) -> bool:
    """Whether a method is called on `super()`: inside a class's own `state_dict`."""
    return isinstance(node, ast.Call) and facts.names.qualified(node.func) == "builtins.super"


def parted(facts: Facts, call: ast.Call) -> bool:
    """Whether single tensors of a state are used, as an average of weights does: they meet others on their device."""
    return any(is_opened(facts, node) or is_opened_inside(facts, node) for node in [call, *reads(facts, call)])


def reads(facts: Facts, call: ast.Call) -> list[ast.AST]:
    """Where what a call returns is read by the names that it is assigned to."""
    statement = facts.parents[call]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {dotted(target) for target in targets} - {None}
    return [
        node
        for node in (facts.nodes if names else ())
        if isinstance(getattr(node, "ctx", None), ast.Load) and dotted(node) in names
    ]


def is_opened(facts: Facts, node: ast.AST) -> bool:
    """Whether the items of a mapping are asked for: `x.items()`, `x[key]`, `for key in x`."""
    parent = facts.parents.get(node)
    by_key = isinstance(parent, ast.Subscript) and parent.value is node
    return by_key or isinstance(parent, (ast.Attribute, ast.For, ast.comprehension))


def is_opened_inside(facts: Facts, node: ast.AST) -> bool:
    """Whether a mapping is given to a function of the program that asks for its items."""
    parent = facts.parents.get(node)
    if not (isinstance(parent, ast.Call) and node in parent.args):
        return False
    index = parent.args.index(node)
    for item in facts.value(parent.func).defs:
        own = item.node.args.args[item.shift :]
        name = own[index].arg if index < len(own) else None
        inner = (part for part in ast.walk(item.node) if isinstance(part, ast.Name) and part.id == name)
        if any(is_opened(facts, part) for part in inner):
            return True
    return False


def is_kept(facts: Facts, call: ast.Call) -> bool:
    """Whether a state is assigned in a loop and read after it: in the original it is the live weights by then."""
    statement = facts.parents[call]
    loops = [item for item in ancestors(facts, statement) if isinstance(item, LOOPS)]
    if not isinstance(statement, ast.Assign) or not loops:
        return False
    plain = all(isinstance(target, ast.Name) for target in statement.targets)
    scope = facts.names.scope(call)
    return any(
        loops[-1] not in ancestors(facts, node) and (not plain or facts.names.scope(node) is scope)
        for node in reads(facts, call)
    )
