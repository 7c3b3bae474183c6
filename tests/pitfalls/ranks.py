"""Lets a program differ by rank on purpose, as clocks and disks do: it imports this, and no conversion looks into it."""

from __future__ import annotations

import os


def is_second() -> bool:
    """Whether this process is the second of several."""
    return os.environ.get("RANK") == "1"
