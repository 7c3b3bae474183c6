"""Folders and links, looked at once each: where a project begins, where imports are looked up, what a path leads to.

A hook on a thousand files imports this before it knows whether there is anything to do: nothing but `os` is needed.
"""

from __future__ import annotations

import os

MARKERS = (".git", "pyproject.toml", "setup.py", "setup.cfg")


def search_roots(folder: str) -> tuple[str, ...]:
    """Where a script's absolute imports are looked up: its folder, those above it in its project, and `src` there."""
    found, current = [folder], folder
    top = project_root(folder)
    while top is not None and current != top:
        current = os.path.dirname(current)
        found.append(current)
    source = os.path.join(found[-1], "src")
    return (*found, source) if os.path.isdir(source) and source not in found else tuple(found)


def project_root(folder: str) -> str | None:
    """The nearest folder at or above one that looks like the root of a project."""
    current = folder
    while True:
        if any(os.path.exists(os.path.join(current, name)) for name in MARKERS):
            return current
        parent = os.path.dirname(current)
        if parent == current:
            return None
        current = parent


def names_in(folder: str) -> list[str]:
    """What is in a folder; nothing if there is none, or it can't be read."""
    try:
        return os.listdir(folder)
    except (OSError, ValueError):
        return []


def within(path: str, folder: str) -> bool:
    """Whether a resolved path is below a resolved folder, or it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


class Folder:
    """What is in a folder: names, and whether each is a link.

    Attributes:
        real: its resolved path.
    """

    def __init__(self, path: str) -> None:
        self.real = os.path.realpath(path)
        self._begin = os.path.join(self.real, "")
        self._below: dict[str, Folder] = {}
        self.names: dict[str, bool] = {}
        try:
            with os.scandir(path) as entries:
                self.names = {entry.name: entry.is_symlink() for entry in entries}
        except (OSError, ValueError):
            pass  # there is none, or it can't be read

    def file(self, name: str) -> str | None:
        """The resolved path of what has a name here."""
        link = self.names.get(name)
        if link is None:
            return None
        return os.path.realpath(self._begin + name) if link else self._begin + name

    def below(self, name: str) -> Folder | None:
        """What has a name here, as a folder; an empty one if it is none."""
        if name not in self.names:
            return None
        if name not in self._below:
            self._below[name] = Folder(self._begin + name)
        return self._below[name]

    def modules(self, name: str) -> list[str]:
        """The files that a module of a name here may have."""
        found = []
        if (file := self.file(f"{name}.py")) is not None:
            found.append(file)
        if (inner := self.below(name)) is not None and (file := inner.file("__init__.py")) is not None:
            found.append(file)
        return found


class Folders:
    """Folders, each of which the system is asked about once and not for each of its files."""

    def __init__(self) -> None:
        self._known: dict[str, Folder] = {}

    def __call__(self, path: str) -> Folder:
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = Folder(path)
        return found

    def real(self, path: str) -> str:
        """As `os.path.realpath`."""
        folder, _, name = path.rpartition(os.sep)
        found = self(folder or os.curdir).file(name) if folder or name == path else None
        return found or os.path.realpath(path)
