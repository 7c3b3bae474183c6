"""What a value is where the conversion edits it: reduced, split, or made global."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .local import has_sample
from .replacing import replace
from .values import (
    COUNTED,
    REDUCED,
    Batch,
    Dep,
    Value,
    tensor,
    whole,
)

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter


def note_other(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> None:
    """Whether what is reduced comes from whole data in this call, or what is split has this rank's rows already."""
    if not frame.forward and not ip.sites.quiet:
        whole_loss = node in ip.sites.reductions and value.dep is Dep.GLOBAL and not value.terms
        ip.sites.others[node, frame.call] = whole_loss or (node in ip.sites.splits and has_sample(value))


def as_edited(ip: Interpreter, node: ast.expr, value: Value) -> Value:
    """What the expression will be once the edits that are already decided are made."""
    if node in ip.sites.counts and value.dep is Dep.ROWS:
        ip.sites.used.add(node)
        return tensor(COUNTED if value.batch.exact else REDUCED)
    if node in ip.sites.gathers and has_sample(value):
        ip.sites.used.add(node)
        return globalised(value)
    if node in ip.sites.splits and value.dep <= Dep.GLOBAL and not has_sample(value):
        ip.sites.used.add(node)
        return _split(ip, value, node, ip.sites.splits[node].dim)
    return value


def _split(ip: Interpreter, value: Value, node: ast.expr, dim: int) -> Value:
    """The value after `runtime.split` along a dimension that all its tensors must have."""
    if any(v.batch.ndim is not None and v.batch.ndim <= dim for v in (value, *(value.items or ()))):
        ip.sites.report("DST111", node, "A tensor of this batch was flattened before it can be split.")
    return sampled(value, node, dim)


def globalised(value: Value) -> Value:
    """The value after `runtime.gather`: the same structure, nothing of it local."""
    batch = value.batch
    if value.is_sample:
        batch = whole(batch.dim, batch.ndim, ragged=batch.ragged or bool(batch.reason))
    elif batch.dep is Dep.ROWS:
        batch = COUNTED if batch.exact else REDUCED
    elif batch.dep > Dep.GLOBAL:
        batch = REDUCED
    items = None if value.items is None else tuple(globalised(v) for v in value.items)
    element = globalised(value.element) if value.element is not None else None
    nothing: frozenset[ast.AST] = frozenset()
    return replace(value, batch=batch, items=items, element=element, sources=nothing, built=frozenset(), origin=None)


def sampled(value: Value, source: ast.AST, dim: int = 0) -> Value:
    """The value after `runtime.split`: every tensor in it has this rank's rows."""
    if value.items is not None:
        return Value(items=tuple(sampled(v, source, dim) for v in value.items), sources=frozenset({source}))
    batch = Batch(Dep.SAMPLE, dim=dim, ndim=value.batch.ndim)
    return Value(batch=batch, sources=frozenset({source}), opaque=value.opaque, leaf=True)
