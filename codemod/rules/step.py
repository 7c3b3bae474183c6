"""Backward, clipping and steps through the runtime.

    -loss.backward()
    -nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    -optimizer.step()
    +runtime.backward(loss)
    +runtime.clip_grad_norm_(model.parameters(), 1.0)
    +runtime.step(optimizer)

After `runtime.backward` gradients are those of the whole batch; clipping comes after unscaling and takes the norm over
all shards; a step with an infinity on any process is skipped on all, and a scheduler of that step with it
(pytorch/examples#1196, huggingface/accelerate#4294, pytorch/pytorch#72548). Arguments stay as they are. All precisions
get the same code, so that another one changes the init call only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Callee, Ref, Replace, Span, Wrap
from ..facts.values import Dep, Role
from ..findings import finding
from . import Outcome, rule
from ._schedulers import per_step_schedulers
from ._source import argument, calls, has_role, in_module_class, method_calls, position

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

CLIPS = {
    f"torch.nn.utils.{module}{name}": f"{name.rstrip('_')}_"
    for module in ("", "clip_grad.")
    for name in ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")
}


@rule("step")
def step(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`runtime.backward`, `clip_grad_norm_`, `clip_grad_value_`, `step` and `grad`."""
    for call in methods(facts, "backward", [call for item in facts.steps for call in item.backwards]):
        yield from backward(facts, call)
    for call in calls(facts, "torch.autograd.backward"):
        yield from function_backward(facts, call)
    for name, ours in CLIPS.items():
        for call in calls(facts, name):
            yield Callee(Span.of(call), "call", {"runtime": facts.runtime_name, "name": ours}, kind="clip")
    stepped = methods(facts, "step", [call for item in facts.steps for call in item.optimizer_steps])
    stepped = [call for call in stepped if has_role(facts, receiver(call), Role.OPTIMIZER)]
    for call in stepped:
        yield as_function(facts, call, "step")
    for call in schedulers(facts):
        held = call.func.value if isinstance(call.func, ast.Attribute) and call not in stepped else None
        if held is not None and has_role(facts, held, Role.SCHEDULER):
            yield as_function(facts, call, "step")
    for call in calls(facts, "torch.autograd.grad"):
        if not in_module_class(facts, call):
            yield Callee(Span.of(call), "call", {"runtime": facts.runtime_name, "name": "grad"}, kind="step")


def methods(facts: Facts, name: str, known: list[ast.Call]) -> list[ast.Call]:
    """Calls `x.name(…)`: those that belong to a training step, and others on tensors or optimizers."""
    marks, found = {id(call) for call in known}, {}
    for call, callee in method_calls(facts, name):
        value = facts.value(callee.value)
        if id(call) in marks:
            found[id(call)] = call
        if Role.OPTIMIZER in value.roles or (name == "backward" and value.dep > Dep.BOTTOM and not value.objs):
            found[id(call)] = call
    return sorted(found.values(), key=position)


def receiver(call: ast.Call) -> ast.expr:
    """The object whose method is called."""
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def as_function(facts: Facts, call: ast.Call, name: str, kind: str = "step") -> Callee:
    """`x.name(…)` becomes `runtime.name(x, …)`."""
    params = {"runtime": facts.runtime_name, "name": name}
    return Callee(Span.of(call), "call", params, (Ref.to(receiver(call)),), kind=kind)


def backward(facts: Facts, call: ast.Call) -> Iterator[Outcome]:
    """`loss.backward(…)`; a gradient argument becomes a factor of the loss."""
    gradient = argument(call, 0, "gradient")
    if gradient is None and not call.args:
        yield as_function(facts, call, "backward", "backward")
        return
    loss = receiver(call)
    if gradient is None or len(call.args) > 1 or facts.value(loss).dep is not Dep.GLOBAL:
        yield finding("DST210", call)
        return
    others = {item.arg: Ref.to(item.value) for item in call.keywords if item.arg and item.arg != "gradient"}
    params = {"runtime": facts.runtime_name, "loss": Ref.to(loss), "factor": Ref.to(gradient), "options": others}
    yield Replace(Span.of(call), "scaled", params, kind="backward")


def function_backward(facts: Facts, call: ast.Call) -> Iterator[Outcome]:
    """`torch.autograd.backward(loss)`; of several losses, their sum has the same gradients."""
    passed_on = all(item.arg in ("retain_graph", "create_graph", "inputs") for item in call.keywords)
    tensors = argument(call, 0, "tensors")
    several = isinstance(tensors, (ast.List, ast.Tuple))
    starred = isinstance(tensors, (ast.List, ast.Tuple)) and any(isinstance(e, ast.Starred) for e in tensors.elts)
    if tensors is None or starred or len(call.args) != 1 or not passed_on:
        yield finding("DST210", call)
        return
    yield Callee(Span.of(call), "call", {"runtime": facts.runtime_name, "name": "backward"}, kind="backward")
    if several:
        yield Wrap(Span.of(tensors), "summed", {}, kind="backward")


def schedulers(facts: Facts) -> list[ast.Call]:
    """Scheduler steps that go with every optimizer step."""
    return sorted((call for item in facts.steps for call in per_step_schedulers(facts, item)), key=position)
