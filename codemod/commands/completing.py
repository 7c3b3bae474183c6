"""What a shell may complete an option with."""

from __future__ import annotations

from collections.abc import Callable


def words(*values: str) -> Callable[[str], list[str]]:
    """A completion with a fixed set of words."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete
