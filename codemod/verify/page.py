"""A page with the result: both curves, their difference, and the tables. It needs nothing but itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import resources
from typing import Any

from ..templates import environment
from ..writing import Replacement, write_all
from .curves import Chart, difference_chart, loss_chart
from .found import Row
from .outcome import Outcome
from .table import summary

ROWS = 25  # differing values of each check


def write_page(path: str, script: str, outcomes: Sequence[Outcome]) -> None:
    """Write the page.

    Raises:
        FileError: it can't be written.
    """
    write_all([Replacement(path, page(script, outcomes).encode("utf-8"))])


def page(script: str, outcomes: Sequence[Outcome]) -> str:
    """The page as text."""
    text = (resources.files("distify.templates") / "verify" / "page.html.j2").read_text(encoding="utf-8")
    params = {"script": script, "outcomes": [shown(outcome) for outcome in outcomes]}
    return environment(escape=True).from_string(text).render(params)


def shown(outcome: Outcome) -> dict[str, Any]:
    """One conversion, as the template takes it."""
    rows = [row for check in outcome.checks for row in (check.rows[:ROWS] if check.rows else best(check.worst))]
    return {
        "title": outcome.title[:1].upper() + outcome.title[1:],
        "result": "equal" if outcome.equal else "unable" if outcome.unable else "differs",
        "place": outcome.place,
        "unable": outcome.unable,
        "causes": outcome.causes,
        "notes": outcome.notes,
        "summaries": [summary(check) for check in outcome.checks],
        "rows": [{"row": row, "far": far(row)} for row in rows],
        "charts": charts(outcome),
    }


def best(row: Row | None) -> list[Row]:
    """The worst value of a check in which nothing differs."""
    return [] if row is None else [row]


def far(row: Row) -> str:
    """A relative difference."""
    return "differs" if math.isinf(row.difference) else f"{row.difference:.1e}" if row.difference else "0"


def charts(outcome: Outcome) -> list[Chart]:
    """The pictures, if there are losses."""
    original, rewritten = outcome.losses
    if not original and not rewritten:
        return []
    allowed = [outcome.allowed.at(index) for index in range(min(len(original), len(rewritten)))]
    return [loss_chart(original, rewritten), difference_chart(original, rewritten, allowed)]
