"""Hooks: functions that a module or a tensor calls by itself, in a forward or in a backward."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import attributes, calls, order
from .local import is_local
from .replacing import replace
from .values import EMPTY, GLOBAL, HOST, Dep, Value, tensor, union

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

FORWARD = ("register_forward_hook", "register_forward_pre_hook")
BACKWARD = ("register_full_backward_hook", "register_backward_hook", "register_full_backward_pre_hook")
OF_TENSOR = ("register_hook", "register_post_accumulate_grad_hook", "retain_grad")


def of_module(ip: Interpreter, name: str, receiver: Value, arguments: Arguments, node: ast.Call) -> Value:
    """`module.register_forward_hook(f)`: the function runs whenever the module does."""
    hook = arguments.get(0, "hook")
    if name in BACKWARD:
        if any(attributes.is_prepared(ip, cell) for cell in receiver.objs):
            ip.sites.report("DST307", node)
        return HOST
    for cell in receiver.objs:
        ip.heap.hook(cell, _kind(name, arguments), hook)
    return HOST


def of_tensor(ip: Interpreter, name: str, receiver: Value, node: ast.Call) -> Value:
    """`x.register_hook(f)`: the gradient that it is given is that of this rank's rows, before it is averaged.

    What `x.retain_grad()` keeps is so too, unless `x` is a leaf, whose gradient is put right.
    """
    kept = name == "retain_grad" and (receiver.leaf or receiver.is_param)
    if (is_local(receiver) or receiver.params & ip.sites.owned) and not kept:
        ip.sites.report("DST307", node)
    return HOST


def _kind(name: str, arguments: Arguments) -> str:
    kwargs = "with_kwargs" in arguments.keywords
    return ("pre" if "pre" in name else "post") + (" kwargs" if kwargs else "")


def after(ip: Interpreter, cell: int, arguments: Arguments, node: ast.Call, frame: Frame, output: Value) -> Value:
    """What a module that was called with these arguments gives, once its hooks have run."""
    held = ip.heap[cell]
    if held.hooks and cell not in ip.made.hooked:
        ip.made.hooked.add(cell)
        ip.sites.changed = True
    output = _run(ip, cell, arguments, node, frame, output)
    if not frame.forward:
        for index in sorted(ip.heap.hooked - ip.made.hooked - {cell}):
            if attributes.root(ip, index) == attributes.root(ip, cell):
                _run(ip, index, arguments, node, frame, _like(arguments))
    return output


def _run(ip: Interpreter, cell: int, arguments: Arguments, node: ast.Call, frame: Frame, output: Value) -> Value:
    """Call the hooks of one module: they are part of the forward."""
    module = Value(objs=frozenset({cell}), roles=ip.heap[cell].roles)
    inputs = Value(items=tuple(v for _, v in arguments.positional))
    for kind, hook in ip.heap[cell].hooks.items():
        given = [module, inputs, *([Value(element=EMPTY)] if "kwargs" in kind else [])]
        for ref in order.functions(ip, order.callables(ip, hook)):
            values = [*given, *([output] if kind.startswith("post") else [])]
            found = calls.enter(
                ip,
                ref,
                {k + ref.shift: v for k, v in enumerate(values)},
                ip.closure(ref.node),
                node,
                frame,
                forward=True,
            )
            if kind.startswith("post") and found not in (EMPTY, HOST) and found.dep is not Dep.BOTTOM:
                output = found
    return output


def _like(arguments: Arguments) -> Value:
    """What a module somewhere inside a model gives: rows like the model's input."""
    values = [v for _, v in arguments.all]
    sample = next((v for v in values if v.is_sample), None)
    if sample is None:
        return Value(batch=GLOBAL, params=union(v.params for v in values))
    return tensor(replace(sample.batch, ndim=None), *values)
