"""Words that messages are made of."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """`1 place`, `2 places`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
