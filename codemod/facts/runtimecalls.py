"""Calls of distify's own runtime in code that is converted already."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import divisors, edited, making, saved, sinks
from .replacing import replace
from .values import EMPTY, GLOBAL, HOST, REDUCED, SAMPLE, Dep, Role, Value, tensor

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

_REDUCTIONS = {"mean", "sum", "max", "min"}


def call(ip: Interpreter, name: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """Value of `runtime.<name>(...)`."""
    from . import expressions

    first = arguments.positional[0][1] if arguments.positional else EMPTY
    if frame.forward and name in _REDUCTIONS | {"gather", "draw", "backward"}:
        _note_step(ip, frame)
    if name in _REDUCTIONS:
        return replace(tensor(REDUCED), params=first.params)
    if name == "gather":
        return edited.globalised(first)
    if name in ("any", "stopping"):
        return HOST
    if name == "prepare" and arguments.positional:
        return arguments.positional[-1][1]
    if name == "shard":
        ip.sites.sharded.update(first.sources)
        return first
    if name == "cycle":
        return first
    if name == "split":
        dim = arguments.get(1, "dim").const
        return edited.sampled(first, node, dim if isinstance(dim, int) else 0)
    if name == "draw":
        operands = [v for _, v in arguments.positional[1:]]
        sources = frozenset(s for v in operands for s in expressions.deep_sources(v))
        return Value(batch=replace(SAMPLE, dim=0), sources=sources)
    if name == "replicated":
        return Value(batch=REDUCED)
    if name == "save":
        saved.save(ip, arguments, node)
    if name == "load":
        return saved.load(ip, node, frame) or Value(batch=GLOBAL)
    if name == "clone":
        return making.deep_copy(ip, first, node, frame)
    if name in ("full", "load_state_dict"):
        return replace(first, is_param=False)
    if name == "scaler":
        return making.made_by(ip, f"distify.runtime.{name}", node, frame, Role.SCALER)
    if name == "device":
        return Value(batch=GLOBAL, roles=frozenset({Role.DEVICE}))
    if name == "grad":
        return gradient(ip, arguments, node, frame)
    if name == "backward":
        return backward(ip, first, arguments.positional[:1], node, frame)
    if name == "step":
        role = ip.made.scheduler_steps if first.has(Role.SCHEDULER) else ip.made.steps
        role[node] = None
        return HOST
    if name.startswith("clip_grad"):
        ip.made.clips[node] = None
    return Value(batch=GLOBAL)


TRAINED = "backward() runs inside a forward: what is trained there sees the rows of one process's slice."
TRAINED_HINT = "train in a function that no forward calls, where the loss is reduced"


def _note_step(ip: Interpreter, frame: Frame) -> None:
    """A method in which the runtime was called already is no part of a forward."""
    current: Frame | None = frame
    while current is not None and current.forward:
        name = getattr(current.node, "name", "forward")
        if current.node is not None and name not in ("forward", "__call__") and current.node not in ip.made.step_defs:
            ip.made.step_defs.add(current.node)
            ip.sites.changed = True
        current = current.caller


def backward(
    ip: Interpreter, loss: Value, operands: list[tuple[ast.expr, Value]], node: ast.Call, frame: Frame
) -> Value:
    """A backward: its loss must be global; the loops and functions around it train."""
    ip.made.backwards[node] = None
    _note_training(ip, frame)
    if frame.forward:
        ip.sites.report("DST124", node, TRAINED, TRAINED_HINT)
    for operand, _ in operands[:1]:
        if loss.batch.reason == divisors.HIDDEN:
            ip.sites.report("DST116", operand)
        elif loss.dep in (Dep.UNKNOWN, Dep.COUPLED):
            ip.sites.report(
                "DST110", operand, f"How this loss depends on the batch can't be told: {loss.batch.reason}."
            )
        elif loss.is_sample and not frame.forward:
            ip.sites.report("DST110", operand, "This loss still has one value per sample where backward runs.")
    return HOST


def _note_training(ip: Interpreter, frame: Frame) -> None:
    """The loops and functions on the way here train."""
    ip.note_way(frame, ip.made.training_defs)
    for loop in frame.loops[-1:]:
        if loop not in ip.made.training_loops:
            ip.made.training_loops.add(loop)
            ip.sites.changed = True


def gradient(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """`grad(outputs, inputs)`: with respect to parameters of a model it trains as a backward does."""
    outputs, inputs = arguments.get(0, "outputs"), arguments.get(1, "inputs")
    if not frame.forward and inputs.params & ip.sites.owned and not inputs.is_sample:
        ip.made.gradients[node] = None
        _note_training(ip, frame)
    inner_gradient(ip, outputs, inputs, node, frame)
    return Value(element=replace(inputs, opaque=False))


def inner_gradient(ip: Interpreter, outputs: Value, inputs: Value | None, node: ast.Call, frame: Frame) -> None:
    """A gradient inside a forward is that of the slice: right only for the rows of a sum, which are each sample's."""
    if not frame.forward or not (outputs.dep is Dep.PENDING or outputs.is_sample):
        return
    wanted = () if inputs is None else inputs.items or (inputs,)
    per_sample = bool(wanted) and all(v.is_sample for v in wanted)
    if not per_sample or (outputs.dep is Dep.PENDING and outputs.batch.kind != "sum"):
        ip.sites.report("DST124", node)


__all__ = ["backward", "call", "inner_gradient", "sinks"]
