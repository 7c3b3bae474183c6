"""Pad packed sequences to the longest of the whole batch.

    -out, _ = pad_packed_sequence(packed, batch_first=True)
    +out, _ = pad_packed_sequence(packed, batch_first=True, total_length=runtime.max(packed.batch_sizes.numel()))

Without it the padded length is that of the longest sequence of each slice: means over time, and targets cut to
the same length, would be others than those of the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Argument, Span
from . import Outcome, rule

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("packing")
def packing(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`total_length=` of `pad_packed_sequence`."""
    for pad in facts.pads:
        length = f"{facts.runtime_name}.max({pad.packed}.batch_sizes.numel())"
        yield Argument(Span.of(pad.node), "total_length", length, kind="reduction")
