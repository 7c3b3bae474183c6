"""Packed sequences: the steps of all sequences laid one after another in time, so that rows are steps, not samples."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .losses import is_pure
from .marks import Pad
from .replacing import replace
from .values import HOST, PACKED, Batch, Dep, Value, tensor, union

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

_COUNTED = "it counts the sequences of this process that reach each time step"
FIELDS = ("data", "batch_sizes", "sorted_indices", "unsorted_indices")
_NAMES = {"pack_padded_sequence", "pad_packed_sequence", "pack_sequence", "PackedSequence"}


def is_packing(ref: str) -> bool:
    """Whether a name packs sequences or takes them apart."""
    space, _, name = ref.rpartition(".")
    return space == "torch.nn.utils.rnn" and name in _NAMES


def is_packed(value: Value) -> bool:
    """Whether a value is a packed sequence of this rank's rows."""
    return value.items is not None and len(value.items) == len(FIELDS) and is_steps(value.items[0])


def is_steps(value: Value) -> bool:
    """Whether the rows of a tensor are the steps of packed sequences, in an order of their own on each rank."""
    return value.is_sample and value.batch.reason == PACKED


def call(ip: Interpreter, ref: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """Value of a call that packs sequences or takes them apart."""
    name = ref.rpartition(".")[2]
    first = arguments.get(0, "sequences" if name == "pack_sequence" else "sequence")
    if name == "pad_packed_sequence":
        return _padded(ip, first, arguments, node)
    if name == "PackedSequence":
        return packed_like(first, first) if is_steps(first) else replace(first, opaque=False)
    first = arguments.get(0, "input") if name == "pack_padded_sequence" else first
    held = first if first.element is None or first.is_sample else first.element
    return packed_like(held, held) if held.is_sample else replace(first, opaque=False)


def packed_like(rows: Value, values: Value) -> Value:
    """A packed sequence with the steps of these rows: `data`, and what belongs to its order."""
    ndim = values.batch.ndim if rows.batch.reason == PACKED or values.batch.ndim is None else values.batch.ndim - 1
    data = tensor(Batch(Dep.SAMPLE, dim=0, ndim=ndim, ragged=True, reason=PACKED), rows, values)
    order = tensor(Batch(Dep.UNKNOWN, reason=_COUNTED), rows)
    return Value(items=(data, order, order, order), sources=rows.sources)


def _padded(ip: Interpreter, first: Value, arguments: Arguments, node: ast.Call) -> Value:
    """Rows again, and their lengths; they are as long as the longest of the whole batch."""
    if not is_packed(first):
        if first.dep is Dep.GLOBAL and node not in ip.sites.repads:
            ip.sites.repads.add(node)
            ip.sites.changed = True
        return Value(items=(replace(first, opaque=False), HOST), sources=first.sources)
    assert first.items is not None
    batch_first = arguments.get(1, "batch_first").const
    dim = 0 if batch_first is True else 1
    data = first.items[0]
    ndim = None if data.batch.ndim is None else data.batch.ndim + 1
    rows = tensor(Batch(Dep.SAMPLE, dim=dim, ndim=ndim), data)
    lengths = tensor(Batch(Dep.SAMPLE, dim=0, ndim=1), data)
    if "total_length" not in arguments.keywords and len(arguments.positional) < 4:
        _lengthen(ip, arguments, node)
    return Value(items=(rows, lengths), sources=union((first.sources, data.sources)))


def _lengthen(ip: Interpreter, arguments: Arguments, node: ast.Call) -> None:
    """The padded length is the longest of this rank's sequences, unless it is given."""
    given = [n for n, _ in arguments.positional[:1]] or [
        n for k, (n, _) in arguments.keywords.items() if k == "sequence"
    ]
    if given and is_pure(given[0]) and node not in ip.sites.repads:
        ip.sites.keep(ip.sites.pads, node, Pad(node, ip.text(given[0])))
    else:
        ip.sites.report("DST122", node)
