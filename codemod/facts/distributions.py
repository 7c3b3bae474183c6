"""`torch.distributions`: objects with the rows of their parameters."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import combining, sinks
from .replacing import replace
from .values import Batch, Dep, Value, union

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

_SAMPLERS = {"sample", "rsample", "sample_n"}


def construct(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """A distribution, or the divergence of two: per sample if a parameter is.

    Random numbers drawn from it outside of a forward need the rows of all parameters, gathered where it is built.
    """
    samples = [(n, v) for n, v in arguments.all if v.is_sample]
    if not samples:
        params = union(v.params for _, v in arguments.all)
        return Value(batch=Batch(Dep.GLOBAL, data=any(v.batch.data for _, v in arguments.all)), params=params)
    value = combining.elementwise(ip, arguments.all, node, frame)
    if not value.is_sample:
        return value
    built = union(v.built or frozenset({n}) for n, v in samples)
    return replace(value, opaque=True, distribution=True, built=built)


def method(ip: Interpreter, name: str, receiver: Value, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """log_prob, entropy: per sample; sample, rsample: of the whole batch unless a forward draws them."""
    assert isinstance(node.func, ast.Attribute)
    if name in _SAMPLERS and not frame.forward:
        return sinks.gather(ip, node.func.value, receiver, frame)
    plain = replace(receiver, opaque=False, distribution=False, built=frozenset())
    operands = [(node.func.value, plain), *[o for o in arguments.all if o[1].dep >= Dep.GLOBAL]]
    result = combining.elementwise(ip, operands, node, frame)
    return replace(result, batch=replace(result.batch, ndim=None)) if result.is_sample else result
