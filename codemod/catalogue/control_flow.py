"""Control flow: who decides, and what is called by some processes only."""

from __future__ import annotations

from .code import Code

ENTRIES = (
    Code(
        "DST601",
        "warning",
        "decision on the clock",
        "processes can decide differently and wait for each other for ever",
        "decide by steps, or write runtime.any(condition)",
    ),
    Code(
        "DST603",
        "warning",
        "exception swallowed around a training step",
        "a process that skips the step, or ends without an error, leaves the others waiting in it",
        "let it propagate; what all processes meet alike, such as a NaN, is better asked for with an if",
    ),
    Code(
        "DST604",
        "warning",
        "star import hides names",
        "names can't be resolved",
        "import the names that are used",
    ),
    Code(
        "DST651",
        "error",
        "collective on some processes only",
        "those that call it wait for the others for ever",
        "let all processes call it, and guard what is done with its result",
    ),
    Code(
        "DST652",
        "error",
        "decision of one process",
        "processes that decide otherwise leave the loop, or skip a step, and the rest wait for them for ever",
        "decide on a reduced value: dist.all_reduce(flag, op=dist.ReduceOp.MAX); with the runtime: runtime.any(…)",
    ),
)
