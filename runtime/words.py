"""Lists in messages."""

from __future__ import annotations

from collections.abc import Sequence


def some(names: Sequence[object], most: int) -> str:
    """The first of several names, and how many more there are: `a, b and 3 more`.

    Args:
        names: of things that a message is about.
        most: how many are named.
    """
    shown = ", ".join(map(str, names[:most]))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
