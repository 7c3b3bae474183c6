"""Models and optimizers that unknown libraries make: what is done with an object tells what it is.

A call of code outside the program gives something that nothing is known of, until its `parameters()` are asked for (a
model), or it is given parameters and steps (an optimizer). The interpretation starts afresh then.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import making, owners
from .replacing import replace
from .values import Role, Value, union

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter


def note_use(ip: Interpreter, name: str, receiver: Value) -> None:
    """A method of an object is called: of the calls that made it, some turn out to make a model or an optimizer."""
    if name in ("parameters", "named_parameters") and receiver.foreign is not None and not receiver.objs:
        ip.made.foreign_models.add(receiver.foreign)
    if name in ("step", "zero_grad"):
        makers = {receiver.foreign, *(ip.heap[cell].node for cell in receiver.objs)}
        ip.made.stepped |= {(node, name) for node in makers if node in ip.made.over_parameters}


def optimizer(ip: Interpreter, ref: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value | None:
    """The optimizer that a call makes, `None` if it makes none.

    It steps and was given parameters; or it was given a model and clears gradients too, unlike what prunes, averages or
    preconditions. What is given an optimizer is a scheduler, or wraps one.
    """
    given = [value for _, value in arguments.all]
    direct = bool(owners.owned_by(ip, arguments))
    if any(value.has(Role.OPTIMIZER) for value in given) or not (direct or any(v.has(Role.MODEL) for v in given)):
        return None
    ip.made.over_parameters.add(node)
    wanted = {(node, "step")} if direct else {(node, "step"), (node, "zero_grad")}
    if not wanted <= ip.made.stepped:
        return None
    if not direct:
        arguments.positional = [(operand, _as_parameters(value)) for operand, value in arguments.positional]
    made = making.made_by(ip, ref, node, frame, Role.OPTIMIZER)
    owners.own_parameters(ip, node, arguments, frame, ref, made.objs)
    return replace(made, params=union(value.params for _, value in arguments.all))


def _as_parameters(value: Value) -> Value:
    """A model that stands for its parameters."""
    return replace(value, params=value.params | value.objs) if value.has(Role.MODEL) else value
