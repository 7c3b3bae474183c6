"""Scratch copies of a project, in which a script may write what it likes.

Code and small files are copied; large files and folders of many are links to the project's own, which the traced
processes turn into copies before they write there (`child/linked.py`).
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ..dataclass import dataclass, field
from ..files import FileError, reason

SMALL = 4 << 20  # bytes up to which a file is copied
TOTAL = 256 << 20  # bytes that are copied in all
ENTRIES = 5000  # files and folders that are laid out one by one; what is left is linked by folders
CROWD = 1000  # entries of a folder that is data
SCRATCH = "distify-verify-"
LEFT = frozenset({"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
NEVER_COPIED = frozenset({".git", ".hg", ".svn", "node_modules", ".tox", ".nox", "site-packages"})

Stamp = tuple[int, int]
"""Size and time of change of a file."""


@dataclass(eq=False)
class Mirror:
    """A scratch copy of a folder.

    Attributes:
        source: the folder.
        root: the copy.
        files: what was laid out: relative names, with the stamp of each copy; links have none.
        links: relative names of links, with what they led to and its stamp.
    """

    source: str
    root: str
    files: dict[str, Stamp | None] = field(default_factory=dict)
    links: dict[str, tuple[str, Stamp]] = field(default_factory=dict)

    def at(self, path: str) -> str:
        """The place in the copy of a path in the folder."""
        return os.path.normpath(os.path.join(self.root, os.path.relpath(path, self.source)))

    def replace(self, texts: Mapping[str, bytes]) -> None:
        """Put other contents into files of the copy, by their real paths in the folder."""
        for path, data in texts.items():
            target = self.at(path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with suppress(FileNotFoundError):
                os.unlink(target)
            with open(target, "wb") as file:
                file.write(data)
            self.files[os.path.relpath(target, self.root)] = stamp(target)

    def written(self) -> list[str]:
        """Relative names of files that are new or were changed."""
        found = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name not in LEFT]
            for name in names:
                path = os.path.join(folder, name)
                below = os.path.relpath(path, self.root)
                if os.path.islink(path) and below in self.links:
                    continue
                new = os.path.isfile(path) and not name.endswith(".pyc") and self.files.get(below) != stamp(path)
                if new and not self._is_entry_of_linked(path):
                    found.append(below)
        return sorted(found)

    def _is_entry_of_linked(self, path: str) -> bool:
        """Whether a path is a link made when a linked folder was opened for writing."""
        return os.path.islink(path) and os.path.realpath(path).startswith(os.path.realpath(self.source) + os.sep)

    def removed(self) -> list[str]:
        """Relative names of files that are gone."""
        return sorted(name for name in self.files if not os.path.lexists(os.path.join(self.root, name)))

    def harmed(self) -> list[str]:
        """Files of the project itself that changed behind a link: what wrote them went past the traced processes."""
        return sorted(path for path, before in self.links.values() if os.path.isfile(path) and stamp(path) != before)


def stamp(path: str) -> Stamp:
    """Size and time of change."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def mirror(source: str, root: str, kept: Iterable[str]) -> Mirror:
    """Lay out a scratch copy of a folder.

    Args:
        source: the folder, as a real path.
        root: where the copy goes.
        kept: real paths of files below it that are copied whatever their size, with the folders they lie in.

    Raises:
        FileError: the folder can't be read, or the disk is full.
    """
    wanted = {os.path.realpath(path) for path in kept}
    ways = {way for path in wanted for way in folders_to(path, source)}
    made = Mirror(source, root)
    try:
        Copier(made, wanted, ways).run()
    except OSError as error:
        raise FileError(f"{error.filename or source}: can't be copied for the comparison: {reason(error)}") from None
    return made


def folders_to(path: str, top: str) -> list[str]:
    """The folders between one at the top and a file below it, without the top."""
    found = []
    folder = os.path.dirname(path)
    while len(folder) > len(top):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


class Copier:
    """Goes through a folder, what is near first, and copies or links."""

    def __init__(self, made: Mirror, wanted: set[str], ways: set[str]) -> None:
        self.made = made
        self.wanted = wanted
        self.ways = ways
        self.bytes = self.entries = 0
        self.todo = deque([""])

    def run(self) -> None:
        """Lay everything out."""
        while self.todo:
            below = self.todo.popleft()
            os.makedirs(os.path.join(self.made.root, below), exist_ok=True)
            with os.scandir(os.path.join(self.made.source, below)) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    self.entries += 1
                    self.lay(os.path.join(below, entry.name), entry)

    def lay(self, below: str, entry: os.DirEntry[str]) -> None:
        """Copy or link one file or folder."""
        if entry.name in LEFT or entry.name.startswith(SCRATCH):
            return
        if entry.is_symlink():
            self.linked_or_copied(below, entry)
        elif entry.is_dir():
            if entry.path in self.ways or self.opens(entry):
                self.todo.append(below)
            else:
                self.link(below, entry.path)
        elif entry.is_file():
            self.linked_or_copied(below, entry)

    def opens(self, entry: os.DirEntry[str]) -> bool:
        """Whether a folder is laid out entry by entry."""
        if self.entries > ENTRIES or entry.name in NEVER_COPIED:
            return False
        try:
            names = os.listdir(entry.path)
        except OSError:
            return False
        return len(names) <= CROWD and "pyvenv.cfg" not in names

    def linked_or_copied(self, below: str, entry: os.DirEntry[str]) -> None:
        """A file, or a link of the project: small files are copied, what they are links to as well."""
        path, target = entry.path, os.path.join(self.made.root, below)
        try:
            size = os.stat(path).st_size
        except OSError:  # a link to nothing
            with suppress(OSError):
                os.symlink(os.readlink(path), target)
            return
        wanted = os.path.realpath(path) in self.wanted
        if not os.path.isfile(path) or not (wanted or (size <= SMALL and self.bytes + size <= TOTAL)):
            self.link(below, path)
            return
        try:
            shutil.copy2(path, target)
        except PermissionError:  # as unreadable as the original
            self.link(below, path)
            return
        self.bytes += size
        self.made.files[below] = stamp(target)

    def link(self, below: str, path: str) -> None:
        """A link into the project."""
        os.symlink(path, os.path.join(self.made.root, below))
        self.made.links[below] = (path, stamp(path))
        self.made.files[below] = None
