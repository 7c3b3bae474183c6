"""What an entry of the catalogue says."""

from __future__ import annotations

from typing import Literal

from ..dataclass import dataclass

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
"""From the one that weighs most."""


@dataclass(frozen=True)
class Code:
    """An entry: what it is called, how much it weighs, why it matters and what to do about it."""

    code: str
    level: Level
    title: str
    why: str
    remedy: str
