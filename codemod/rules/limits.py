"""What the chosen backend, precision or window can't do exactly: refused here, before it fails or misleads.

LBFGS keeps its own list of parameters, which sharded backends replace, and evaluates its closure a number of times that
loss scaling and accumulation windows can't follow (pytorch/pytorch#30439). Gradients that the script reads or writes by
hand are parts of them under a sharded backend (pytorch/pytorch#72548). `model.half()` trains without master weights
(haotian-liu/LLaVA#363).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.values import Role
from ..findings import finding
from . import Outcome, rule
from ._source import RUNTIME, SHARDED, argument, calls, has_closure, has_role, method_calls, setting
from ._whole import after_step, is_open

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

UNFIT = ("torch.optim.LBFGS", "torch.optim.lbfgs.LBFGS")


@rule("limits")
def limits(facts: Facts, options: Options) -> Iterator[Outcome]:
    """Findings about combinations that can't be exact."""
    backend, precision = setting(facts, options, "backend"), setting(facts, options, "precision")
    for item in facts.optimizers:
        if item.qualified in UNFIT and (backend in SHARDED or precision == "fp16"):
            what = f"--backend {backend}" if backend in SHARDED else "--precision fp16"
            message = f"LBFGS keeps its own list of parameters and calls a closure, which {what} can't do exactly"
            hint = "use --backend ddp and --precision fp32"
            yield finding("DST203", item.call, message, hint)
    windows = setting(facts, options, "accumulate") not in (None, 1)
    yield from closures(facts, windows, precision == "fp16")
    yield from inner_gradients(facts, windows, backend in SHARDED)
    if backend in SHARDED:
        yield from direct_gradients(facts, str(backend))
    if backend == "deepspeed":
        message = "DeepSpeed drops gradients with each step, so there are none to use after it"
        for used in filter(lambda item: after_step(facts, item), facts.opened):
            yield finding("DST206", used.statement, message, "use them before optimizer.step()", level="error")
    if backend == "fsdp" or (backend == "deepspeed" and setting(facts, options, "zero_stage") == 3):
        yield from called_with_other_weights(facts)
    yield from halved(facts)


def closures(facts: Facts, windows: bool, scaled: bool) -> Iterator[Outcome]:
    """Closures that compute gradients inside a step, where no window ends and nothing takes the loss scale out."""
    told = any(item.qualified in UNFIT for item in facts.optimizers)
    for step in facts.steps:
        for call in step.optimizer_steps:
            if windows and has_closure(facts, call):
                yield finding("DST208", call)
            elif scaled and not told and has_closure(facts, call):
                message = (
                    "a closure computes gradients inside the step, where --precision fp16 can't take its scale out"
                )
                yield finding("DST203", call, message, "use --precision bf16 or fp32")


def inner_gradients(facts: Facts, windows: bool, sharded: bool) -> Iterator[Outcome]:
    """`torch.autograd.grad` with respect to parameters: of one batch only, and whole."""
    for call in calls(facts, "torch.autograd.grad", f"{RUNTIME}.grad"):
        inputs = argument(call, 1, "inputs")
        if inputs is None or not holds_parameters(facts, inputs):
            continue
        if windows:
            message = "gradients that grad() returns are those of one batch: a window does not add them up"
            yield finding("DST205", call, message, "call backward, or leave out --accumulate")
        elif sharded:
            message = "grad() returns whole gradients of parameters, of which a process holds parts only"
            yield finding("DST903", call, message, "call backward, or use --backend ddp")


def holds_parameters(facts: Facts, node: ast.expr) -> bool:
    """Whether an expression is a parameter, or several."""
    value = facts.value(node)
    parts = [value, *(value.items or ()), *([value.element] if value.element is not None else [])]
    return any(item.is_param or (item.params and not item.is_sample and not item.terms) for item in parts)


def called_with_other_weights(facts: Facts) -> Iterator[Outcome]:
    """`functional_call(model, weights, …)`: the parts of weights that a process holds can't stand for them."""
    for call in calls(facts, "torch.func.functional_call", "torch.nn.utils.stateless.functional_call"):
        if call.args and has_role(facts, call.args[0], Role.MODEL):
            message = "functional_call passes by what gathers sharded parameters"
            yield finding("DST903", call, message, "use --backend ddp, or --backend deepspeed with --zero-stage 2")


def direct_gradients(facts: Facts, backend: str) -> Iterator[Outcome]:
    """Parameters' `.grad` used by the script itself, where they can't be made whole."""
    for node in facts.grads:
        if not is_open(facts, node):
            yield finding("DST206", node, level="error" if backend == "deepspeed" else None)


def halved(facts: Facts) -> Iterator[Outcome]:
    """`model.half()`."""
    for call, callee in method_calls(facts, "half"):
        if has_role(facts, callee.value, Role.MODEL):
            yield finding("DST403", call)
