"""Paths as a code host knows them: below the root of the repository."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from urllib.parse import quote


class Root:
    """The root of the repository that the working directory is in, else the working directory."""

    def __init__(self, start: str = os.curdir) -> None:
        self._start = os.path.realpath(start)

    @cached_property
    def folder(self) -> str:
        """Where it is."""
        folders = [self._start, *map(str, Path(self._start).parents)]
        return next((folder for folder in folders if os.path.exists(os.path.join(folder, ".git"))), self._start)

    def relative(self, path: str) -> str | None:
        """A path below the root with forward slashes; `None` for one that isn't (standard input is not)."""
        if path.startswith("<"):
            return None
        folder, name = os.path.split(
            os.path.join(self._start, path)
        )  # a link is named as it is, and not what it leads to
        below = os.path.relpath(os.path.join(os.path.realpath(folder), name), self.folder)
        return None if below == os.pardir or below.startswith(os.pardir + os.sep) else below.replace(os.sep, "/")

    def uri(self, path: str) -> tuple[str, bool]:
        """A URI reference, %-encoded, and whether it is below the root."""
        below = self.relative(path)
        if below is not None:
            return quote(os.fsencode(below)), True
        if path.startswith("<"):
            return quote(path.strip("<>")), False
        absolute = os.path.abspath(os.path.join(self._start, path)).replace(os.sep, "/")
        return f"file://{'' if absolute.startswith('/') else '/'}{quote(os.fsencode(absolute), safe='/:')}", False
