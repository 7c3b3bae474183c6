"""Unified diffs of bytes, so that no encoding or line end gets lost."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator

END = b"\\ No newline at end of file\n"


def unified(path: str, before: bytes, after: bytes, context: int = 3) -> Iterator[bytes]:
    """The lines of a diff that `patch -p1` and `git apply` take.

    Args:
        path: name in the headers; a relative one gets `a/` and `b/`.
        before, after: what to compare.
        context: unchanged lines around a change.
    """
    name = os.path.normpath(path).replace(os.sep, "/").strip("<>")  # <stdin>
    old, new = (name, name) if os.path.isabs(path) else (f"a/{name}", f"b/{name}")
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        split(before),
        split(after),
        os.fsencode(old),
        os.fsencode(new),
        n=context,
        lineterm=b"\n",
    )
    for line in lines:
        if line.endswith(b"\n"):
            yield line
        else:
            yield line + b"\n"
            yield END


def split(data: bytes) -> list[bytes]:
    """Lines that end with a line feed, as `patch` has them; a carriage return is part of its line."""
    *lines, last = data.split(b"\n")
    return [line + b"\n" for line in lines] + ([last] if last else [])
