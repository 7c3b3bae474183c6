"""The result in words and tables of 80 columns, without boxes: it is read aloud and piped as well."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..phrases import plural
from .found import Check, Row
from .outcome import Outcome

if TYPE_CHECKING:
    from ..report.text import Line

WIDTH = 79
NAME, VALUE, FAR = 32, 16, 11
SHOWN = 5  # differing values of each check


def report(script: str, outcomes: Sequence[Outcome]) -> Iterator[Line]:
    """All that is said of the outcomes of one script."""
    if len(outcomes) > 1:
        yield from matrix(outcomes)
    for outcome in outcomes:
        if len(outcomes) == 1 or not (outcome.equal or outcome.skipped):
            yield from on_outcome(script, outcome)


def on_outcome(script: str, outcome: Outcome) -> Iterator[Line]:
    """What is said of one conversion."""
    yield from wrapped(f"{script}: original on 1 process, {outcome.title}", "bold")
    for note in outcome.notes:
        yield from wrapped(note, "dim", "  ")
    if outcome.unable:
        yield from wrapped(f"COULD NOT RUN: {outcome.unable[0]}", "bold red")
        for line in outcome.unable[1:]:
            yield [(f"  {line}", "")]  # whole: messages are searched for
        return
    yield []
    rows = [line for check in outcome.checks for line in on_check(check)]
    if rows:
        yield [(columns("", "original", "rewritten", "relative"), "bold")]
        yield from [*rows, []]
    for check in outcome.checks:
        yield from wrapped(summary(check), "", "  ")
    yield []
    yield from verdict(outcome)


def on_check(check: Check) -> Iterator[Line]:
    """The worst value of a check, or those that differ first."""
    if check.equal:
        if check.worst is not None and check.worst.excess:
            yield from on_row(check.worst, "")
        return
    for row in check.rows[:SHOWN]:
        yield from on_row(row, "red")
    left = check.differ - SHOWN
    if left > 0:
        yield [
            (f"  … and {plural(left, 'more value')} of {check.name} that {'differ' if left > 1 else 'differs'}", "dim")
        ]
        if check.worst is not None and check.worst not in check.rows[:SHOWN]:
            yield from on_row(check.worst, "red")


def on_row(row: Row, style: str) -> Iterator[Line]:
    """One value of both runs; texts that are too long for the table go below it."""
    far = "" if math.isinf(row.difference) else f"{row.difference:.1e}" if row.difference else "0"
    name = row.what if len(row.what) <= NAME else f"…{row.what[1 - NAME :]}"
    if max(len(row.original), len(row.rewritten)) <= VALUE:
        same = row.excess == 0 and row.original == row.rewritten
        yield [(columns(name, row.original, row.rewritten, far or ("0" if same else "differs")), style)]
        return
    if row.equal and row.original == row.rewritten:
        yield [(columns(name, "same text", "same text", "0"), style)]
        return
    yield [(columns(name, "", "", far or "differs"), style)]
    yield [(f"    original   {row.original}"[:WIDTH], style)]
    yield [(f"    rewritten  {row.rewritten}"[:WIDTH], style)]


def columns(name: str, original: str, rewritten: str, far: str) -> str:
    """One line of the table."""
    return f"{name:<{NAME}} {original:>{VALUE}} {rewritten:>{VALUE}} {far:>{FAR}}".rstrip()


def summary(check: Check) -> str:
    """How much was compared, in a sentence."""
    text = f"{check.name}: {plural(check.compared, check.unit)} compared"
    if not check.compared:
        text = f"{check.name}: none"
    elif check.differ:
        text += f", {check.differ} of them {'differ' if check.differ > 1 else 'differs'}"
    elif check.largest:
        text += f", equal up to {check.largest:.1e}"
    else:
        text += ", equal"
    return "; ".join([text, *check.notes])


def verdict(outcome: Outcome) -> Iterator[Line]:
    """Whether the runs are the same, and if not, where that begins and why."""
    if outcome.equal:
        allowed = outcome.allowed
        grows = "" if allowed.step == allowed.many else f", growing to {allowed.many:g} with the steps"
        yield from wrapped(f"EQUAL up to rounding (relative tolerance {allowed.step:g}{grows})", "bold green")
        if outcome.forgiven:
            text = (
                "This training amplifies rounding: the original, started with weights moved by their last digit, was "
            )
            yield from wrapped(f"{text}compared with itself to tell how far.", "", "  ")
        return
    yield from wrapped(f"DIFFERS, first at {outcome.place}", "bold red")
    if outcome.causes:
        yield [("What usually causes it, the likeliest first:", "")]
        for number, cause in enumerate(outcome.causes, 1):
            yield from wrapped(f"{number}. {cause}", "", "  ", "     ")


def matrix(outcomes: Sequence[Outcome]) -> Iterator[Line]:
    """One line for each backend."""
    names = ("losses", "gradients", "output", "files")
    yield [(f"{'backend':<10}" + "".join(f"{name:>10}" for name in names) + "  first difference", "bold")]
    for outcome in outcomes:
        if outcome.unable:
            word = "not installed" if outcome.skipped else "could not run"
            cells = "".join(f"{'-':>10}" for _ in names)
            yield [(f"{outcome.name:<10}{cells}  {word}", "dim" if outcome.skipped else "red")]
            continue
        cells = "".join(f"{cell(outcome, name):>10}" for name in names)
        result = "none: equal" if outcome.equal else outcome.place
        yield [(f"{outcome.name:<10}{cells}  {result}"[:WIDTH], "green" if outcome.equal else "red")]
    yield []


def cell(outcome: Outcome, name: str) -> str:
    """The largest difference of one check."""
    check = next((check for check in outcome.checks if check.name == name), None)
    if check is None or not check.compared:
        return "-"
    if check.differ and not check.largest:
        return "differs"
    return f"{check.largest:.1e}" if check.largest else "0"


def wrapped(text: str, style: str, first: str = "", then: str | None = None) -> Iterator[Line]:
    """A sentence on lines that fit."""
    rest = f"{first}  " if then is None else then
    for line in textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False):
        yield [(line, style)]
