"""Where in the script the runtime was called."""

from __future__ import annotations

import sys
from types import CodeType

PACKAGE = __name__.rsplit(".", 1)[0]


def caller() -> tuple[CodeType, int] | None:
    """The place in the script that called into the runtime: code object and line; equal on all ranks."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else (frame.f_code, frame.f_lineno)
