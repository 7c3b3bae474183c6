"""The catalogue of finding codes. Codes are stable: never renumbered, never reused.

Families, by the first digit: see `FAMILIES`; what each holds is in `catalogue`.
From x51 on, codes are of `distify check` alone: what is unsafe in scripts that run on several processes already.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .catalogue import (
    backend,
    checkpoint,
    control_flow,
    data,
    evaluation,
    model,
    optimizer,
    output,
    precision,
    whole,
)
from .catalogue.code import LEVELS, Code, Level

_ENTRIES = (
    *data.ENTRIES,
    *whole.ENTRIES,
    *optimizer.ENTRIES,
    *model.ENTRIES,
    *precision.ENTRIES,
    *evaluation.ENTRIES,
    *control_flow.ENTRIES,
    *checkpoint.ENTRIES,
    *output.ENTRIES,
    *backend.ENTRIES,
)

FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "1": "data",
        "2": "optimizer",
        "3": "model",
        "4": "precision",
        "5": "evaluation",
        "6": "control-flow",
        "7": "checkpoint",
        "8": "output",
        "9": "backend",
    }
)
"""What the first digit of a code stands for."""

OF_CHECK = frozenset(entry.code for entry in _ENTRIES if int(entry.code[-2:]) > 50)
"""Codes that conversions never report."""

CODES: Mapping[str, Code] = MappingProxyType(
    {entry.code: entry for entry in sorted(_ENTRIES, key=lambda entry: entry.code in OF_CHECK)}
)
"""All entries: those of conversions first."""


def similar(name: str) -> str:
    """What is said of a name that is no code: the nearest one, or what codes look like."""
    import difflib

    close = difflib.get_close_matches(name.upper().replace("O", "0").replace("I", "1"), CODES, 1)
    return f"did you mean '{close[0]}'?" if close else "codes are those of the report, such as DST101"


def family(code: str) -> str:
    """What a code is about: "data", "optimizer" and so on."""
    return FAMILIES[code[3]]


__all__ = ["CODES", "FAMILIES", "LEVELS", "OF_CHECK", "Code", "Level", "family", "similar"]
