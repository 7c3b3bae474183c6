"""Compares what two runs computed: the loss of each backward, the norm of the gradients at each optimizer step."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from .found import Check, Row
from .numbers import Tolerance, difference, excess, shown
from .output import MISSING


@dataclass
class Trace:
    """What a run computed.

    Attributes:
        losses: by backward call.
        norms: of all gradients, by optimizer step that was taken; `None` where it could not be told.
        order: kinds of these, "loss" or "norm", as they came.
        averaged: whether losses are means over processes that did not reduce them.
    """

    losses: list[float] = field(default_factory=list)
    norms: list[float | None] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    averaged: bool = False


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
        if "loss" in event:
            trace.losses.append(float(event["loss"]))
            trace.order.append("loss")
        elif not event.get("skipped"):
            trace.norms.append(None if event.get("grad_norm") is None else float(event["grad_norm"]))
            trace.order.append("norm")
    return trace


def joined(main: Trace, ranks: Sequence[Trace]) -> Trace:
    """The trace of several processes: what the runtime wrote, else the mean of what each process had.

    A script that goes past the runtime, such as one that was distributed by hand, leaves the second only.
    """
    if main.losses or not any(trace.losses for trace in ranks):
        return main
    losses = [sum(values) / len(values) for values in zip(*(trace.losses for trace in ranks))]
    return Trace(losses, list(ranks[0].norms), list(ranks[0].order), averaged=True)


def compare_losses(original: Trace, rewritten: Trace, tolerance: Tolerance) -> Check:
    """Compares the loss of each backward."""
    check = Check("losses", "backward call")
    compare_values(check, "loss of backward", original.losses, rewritten.losses, tolerance)
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
    for index, (a, b) in enumerate(zip(left, right)):
        if a is not None and b is not None:
            far = excess(a, b, tolerance.at(index), tolerance.absolute)
            check.add(Row(f"{what} {index + 1}", shown(a), shown(b), difference(a, b), far, index))
    if len(left) != len(right):
        index = min(len(left), len(right))
        values = [shown(v[index] or math.nan) if len(v) > index else MISSING for v in (left, right)]
        check.add(Row(f"{what} {index + 1}", values[0], values[1], index=index))
        check.notes.append(f"{len(left)} {check.unit}s became {len(right)}")


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
