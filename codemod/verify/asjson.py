"""The result as JSON, for other programs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from .found import Check, Row
from .outcome import Outcome

ROWS = 50  # differing values of each check that are listed


def as_json(script: str, outcomes: Sequence[Outcome], code: int) -> bytes:
    """One object; numbers that are not finite are `null`."""
    body = {"script": script, "exit": code, "runs": [run(outcome) for outcome in outcomes]}
    return (json.dumps(body, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def run(outcome: Outcome) -> dict[str, Any]:
    """One conversion."""
    result = "equal" if outcome.equal else "skipped" if outcome.skipped else "unable" if outcome.unable else "differs"
    return {
        "backend": outcome.name,
        "result": result,
        "unable": outcome.unable,
        "first": outcome.place or None,
        "causes": outcome.causes,
        "notes": outcome.notes,
        "checks": {check.name: as_dict(check) for check in outcome.checks},
        "losses": {
            "original": [finite(value) for value in outcome.losses[0]],
            "rewritten": [finite(value) for value in outcome.losses[1]],
        },
    }


def as_dict(check: Check) -> dict[str, Any]:
    """One check."""
    return {
        "unit": check.unit,
        "compared": check.compared,
        "differ": check.differ,
        "largest": finite(check.largest),
        "worst": None if check.worst is None else row_as_dict(check.worst),
        "rows": [row_as_dict(row) for row in check.rows[:ROWS]],
        "notes": check.notes,
    }


def row_as_dict(row: Row) -> dict[str, Any]:
    """One value of both runs."""
    values = {"what": row.what, "original": row.original, "rewritten": row.rewritten}
    return {**values, "difference": finite(row.difference), "equal": row.equal}


def finite(value: float) -> float | None:
    """A number that JSON knows."""
    return value if math.isfinite(value) else None
