"""Compares what two runs computed: the loss of each backward, the norm of the gradients at each optimizer step."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from ..dataclass import dataclass, field, replace
from .found import Check, Row, row_of
from .numbers import Tolerance, excess, shown
from .output import MISSING

UNTOLD = "(unknown)"
BY_PROCESS = "backward calls by process"


@dataclass
class Trace:
    """What a run computed.

    Attributes:
        losses: by backward call.
        norms: of all gradients, by optimizer step that was taken; `None` where it could not be told.
        order: kinds of these, "loss" or "norm", as they came.
        averaged: whether losses are means over processes that did not reduce them.
        calls: backward calls of each process, where processes differ.
        lead: of one process, which of these it had the runtime make, in that order too: "loss", "norm" or "".
    """

    losses: list[float] = field(default_factory=list)
    norms: list[float | None] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    averaged: bool = False
    calls: list[int] = field(default_factory=list)
    lead: list[str] = field(default_factory=list)


def read_trace(path: Path) -> Trace:
    """The trace that a run has written so far; nothing if there is none."""
    trace = Trace()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return trace
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:  # the line that is being written
            continue
        if "runtime" in event:
            trace.lead.append(event["runtime"])
        elif "loss" in event:
            trace.losses.append(float(event["loss"]))
            trace.order.append("loss")
            trace.lead.append("")
        elif not event.get("skipped"):
            trace.norms.append(None if event.get("grad_norm") is None else float(event["grad_norm"]))
            trace.order.append("norm")
            trace.lead.append("")
    return trace


def joined(main: Trace, ranks: Sequence[Trace]) -> Trace:
    """The trace of several processes: what the runtime wrote, and the mean of what each process had besides.

    A script that goes past the runtime, such as one that was distributed by hand, leaves the second only.
    """
    counts = [len(trace.losses) for trace in ranks]
    if not any(counts) and (main.order or not any(trace.norms for trace in ranks)):
        return main
    longest = max(ranks, key=lambda trace: len(trace.losses))
    own, ours = means(ranks), iter(zip(longest.order, values_of(longest)))
    theirs = iter(zip(main.order, values_of(main)))
    made = Trace(averaged=not main.losses, calls=counts if len(set(counts)) > 1 else [])
    for kind in longest.lead if main.order else [""] * len(longest.order):
        if kind:
            take(made, theirs, kind)
        else:
            for order, value in ours:
                if order == "loss":
                    put(made, order, next(own))
                elif not main.norms:  # else it is a step inside of the runtime's
                    put(made, order, value)
                break
    for order, value in theirs:
        put(made, order, value)
    return made


def means(ranks: Sequence[Trace]) -> Iterator[float]:
    """The mean of each loss over the processes that had it."""
    for values in zip_longest(*(trace.losses for trace in ranks)):
        there = [value for value in values if value is not None]
        yield sum(there) / len(there)


def values_of(trace: Trace) -> Iterator[float | None]:
    """Losses and norms as they came."""
    losses, norms = iter(trace.losses), iter(trace.norms)
    return (next(losses) if kind == "loss" else next(norms) for kind in trace.order)


def take(trace: Trace, events: Iterator[tuple[str, float | None]], until: str) -> None:
    """Take over what the runtime wrote, until it was the call of this kind; a skipped step leaves nothing."""
    for kind, value in events:
        put(trace, kind, value)
        if kind == until:
            return


def put(trace: Trace, kind: str, value: float | None) -> None:
    """Add a loss or a norm."""
    trace.order.append(kind)
    if kind == "loss":
        assert value is not None
        trace.losses.append(value)
    else:
        trace.norms.append(value)


def compare_losses(original: Trace, rewritten: Trace, tolerance: Tolerance) -> Check:
    """Compares the loss of each backward."""
    check = Check("losses", "backward call")
    compare_values(check, "loss of backward", original.losses, rewritten.losses, tolerance)
    if rewritten.calls:
        counts = ", ".join(map(str, rewritten.calls))
        check.add(Row(BY_PROCESS, str(len(original.losses)), counts, index=min(rewritten.calls)))
        check.rows.sort(key=lambda row: row.index)
    if rewritten.averaged:
        check.notes.append("the rewritten script reduces no loss by the runtime: the mean over its processes is shown")
    return check


def compare_norms(original: Trace, rewritten: Trace, tolerance: Tolerance) -> Check:
    """Compares the norm of the gradients at each step; nothing where the rewritten script has none."""
    check = Check("gradients", "optimizer step")
    # where a maximum flips between equal values, as in pooling, a gradient jumps from the first step on
    constant = replace(tolerance, step=tolerance.many)
    if rewritten.norms or not rewritten.averaged:
        compare_values(check, "gradient norm of step", original.norms, rewritten.norms, constant)
    return check


def compare_values(
    check: Check, what: str, left: Sequence[float | None], right: Sequence[float | None], tolerance: Tolerance
) -> None:
    """Adds values in their order; those that only one side has make one row."""
    untold = 0
    for index, (a, b) in enumerate(zip(left, right)):
        name = f"{what} {index + 1}"
        if a is None or b is None:
            texts = [UNTOLD if value is None else shown(value) for value in (a, b)]
            far = 0.0 if a is b else math.inf
            check.add(Row(name, texts[0], texts[1], far, far, index))
            untold += a is b
        else:
            far = excess(a, b, tolerance.at(index), tolerance.absolute)
            check.add(row_of(name, (a, b), (shown(a), shown(b)), far, index, what))
    if len(left) != len(right):
        index = min(len(left), len(right))
        texts = [one_of(v, index) for v in (left, right)]
        check.add(Row(f"{what} {index + 1}", texts[0], texts[1], index=index))
        check.notes.append(f"{len(left)} {check.unit}s became {len(right)}")
    if untold:
        check.notes.append(f"{untold} of them could be told in neither run")


def one_of(values: Sequence[float | None], index: int) -> str:
    """A value for the table, or that there is none."""
    if index >= len(values):
        return MISSING
    value = values[index]
    return UNTOLD if value is None else shown(value)


def first(original: Trace, checks: Sequence[Check]) -> Row | None:
    """The first row that differs, of losses and gradient norms together, in the order of the original run."""
    found = {check.name: check.rows[0] for check in checks if check.rows}
    loss, norm = found.get("losses"), found.get("gradients")
    if loss is None or norm is None:
        return loss or norm
    places = {"loss": -1, "norm": -1}
    for kind in original.order:
        places[kind] += 1
        for name, row in (("loss", loss), ("norm", norm)):
            if kind == name and places[kind] == row.index:
                return row
    return loss
