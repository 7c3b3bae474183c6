"""Changes of examples, as they are shown."""

from __future__ import annotations

import difflib

ELLIPSIS = " ...\n"


def diff(before: str, after: str) -> str:
    """The change with a line of context, without headers; empty if there is none."""
    lines = list(difflib.unified_diff(before.splitlines(True), after.splitlines(True), n=1))[2:]
    kept = [ELLIPSIS if line.startswith("@@") else line.replace("\n", "").rstrip() + "\n" for line in lines]
    return "".join(kept[1:] if kept[:1] == [ELLIPSIS] else kept)
