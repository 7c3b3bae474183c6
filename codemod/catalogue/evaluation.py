"""Evaluation: numbers that are shown or stored."""

from __future__ import annotations

from .code import Code

ENTRIES = (
    Code(
        "DST551",
        "warning",
        "number of one process",
        "it is computed from this process's share of the samples, and shown or stored as if it were that of all",
        "reduce it first: dist.all_reduce(total), then divide by the reduced count",
    ),
    Code(
        "DST552",
        "error",
        "value not reduced",
        "it is that of this process's slice, and differs from one process to the next",
        "runtime.mean(…), runtime.sum(…) or runtime.gather(…), which --fix writes",
    ),
)
