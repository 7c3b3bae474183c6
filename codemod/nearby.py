"""Which files may take part in a training, by a look at their bytes: a hook is given a thousand that don't.

Nothing is parsed. Each file is looked at once, and what was learnt about it serves every other file that imports it.
"""

from __future__ import annotations

import os

from . import glance
from .folders import Folder, Folders, search_roots

TYPE_CHECKING = False  # as `typing` has it, which takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Roots = tuple[str, ...]  # folders in which absolute imports are looked up

TRAINS, STEPS = glance.trains, glance.steps


class Nearby:
    """Which files may train: what they name, or what they import names, directly or not.

    Args:
        read: gives the bytes of another file, `None` if there are none; without it, imports are not followed.
    """

    def __init__(self, read: Callable[[str], bytes | None] | None) -> None:
        self._read = read
        self._folders = Folders()
        self.real = self._folders.real
        self._data: dict[str, bytes] = {}
        self._own: dict[Callable[[bytes], bool], dict[str, bool]] = {TRAINS: {}, STEPS: {}}
        self._next: dict[tuple[str, Roots], list[str]] = {}
        self._lines: dict[tuple[str, Roots], dict[bytes, list[str]]] = {}
        self._known: dict[tuple[Roots, Callable[[bytes], bool]], dict[str, bool]] = {}
        self._searched: dict[str, Roots] = {}

    def trains(self, path: str, data: bytes) -> bool:
        """Whether there may be anything to convert, or to refuse, in a program that starts from a file."""
        if self._read is None:
            return TRAINS(data)
        start = self.real(path)
        self._data[start] = data
        return self._program_trains(start, self._roots_of(start))

    def any_trains(self, texts: Mapping[str, bytes]) -> bool:
        """The same for any of several files, given by their resolved paths: faster than one by one."""
        self._data.update(texts)
        if self._read is None:
            return any(self._named(path, TRAINS) for path in texts)
        groups: dict[Roots, list[str]] = {}
        for path in texts:
            groups.setdefault(self._roots_of(path), []).append(path)
        return any(
            not self._harmless(paths, roots) and any(self._program_trains(path, roots) for path in paths)
            for roots, paths in groups.items()
        )

    def _harmless(self, paths: list[str], roots: Roots) -> bool:
        """Whether none of some files, nor what they import, names what trains.

        The same as `_reaches` of each; but all texts are searched at once, and a line that stands in many files of a
        folder is looked at once.
        """
        seen = set(paths)
        while paths:
            texts = [*map(self._bytes, paths)]
            if TRAINS(b"\n".join(texts)):
                return False
            lines: dict[str, set[bytes]] = {}
            for path, text in zip(paths, texts):
                folder = path.rpartition(os.sep)[0] or os.sep
                lines.setdefault(folder, set()).update(glance.lines(text))
            found: set[str] = set()
            for folder, held in lines.items():
                if any(map(glance.calls, held)):
                    return False  # which takes a closer look
                meant: dict[str, set[str]] = {}
                for line in held:
                    for name, members in glance.imports(line):
                        meant.setdefault(name, set()).update(members)
                for name, names in meant.items():
                    found.update(self._meant(folder, name, names, roots))
            paths = list(found - seen)
            seen |= found
        return True

    def _program_trains(self, start: str, roots: Roots) -> bool:
        return self._reaches([start], roots, TRAINS) and self._reaches([start], roots, STEPS)

    def _roots_of(self, path: str) -> Roots:
        folder = path.rpartition(os.sep)[0] or os.sep
        if folder not in self._searched:
            self._searched[folder] = search_roots(folder)
        return self._searched[folder]

    def _reaches(self, starts: list[str], roots: Roots, names: Callable[[bytes], bool]) -> bool:
        """Whether one of some files, or one that they import, names what trains, or what steps."""
        known = self._known.setdefault((roots, names), {})
        if len(starts) == 1 and starts[0] in known:
            return known[starts[0]]
        todo, came = list(starts), dict.fromkeys(starts, "")
        for file in todo:  # grows while it is gone through
            if known[file] if file in known else self._named(file, names):
                while file:  # what led here reaches it too
                    known[file] = True
                    file = came[file]
                return True
            for found in () if file in known else self._imports(file, roots):
                if found not in came:
                    came[found] = file
                    todo.append(found)
        known.update(dict.fromkeys(todo, False))
        return False

    def _named(self, path: str, names: Callable[[bytes], bool]) -> bool:
        """Whether a file itself names what trains, or what steps."""
        own = self._own[names]
        found = own.get(path)
        if found is None:
            found = own[path] = names(self._bytes(path))
        return found

    def _bytes(self, path: str) -> bytes:
        found = self._data.get(path)
        if found is None:
            found = self._data[path] = (self._read(path) if self._read is not None else None) or b""
        return found

    def _imports(self, path: str, roots: Roots) -> list[str]:
        """The files that one may import."""
        found = self._next.get((path, roots))
        if found is not None:
            return found
        folder = path.rpartition(os.sep)[0] or os.sep
        known = self._lines.setdefault((folder, roots), {})
        lines = glance.lines(self._bytes(path))
        for line in lines:
            if line not in known:
                known[line] = list(self._meant_by(line, folder, roots))
        found = [file for line in lines for file in known[line]]
        if any(map(glance.calls, lines)):
            found += self._called(glance.called(self._bytes(path)), roots)
        self._next[path, roots] = found
        return found

    def _meant_by(self, line: bytes, folder: str, roots: Roots) -> Iterator[str]:
        """The files that a line in a file of a folder may import."""
        for name, members in glance.imports(line):
            yield from self._meant(folder, name, members, roots)

    def _meant(self, folder: str, name: str, members: Iterable[str], roots: Roots) -> Iterator[str]:
        """The files that an import in a folder may mean."""
        bare = name.lstrip(".")
        if bare != name:
            for _ in range(len(name) - len(bare) - 1):
                folder = os.path.dirname(folder)
            roots = (folder,)
        for root in roots:
            home: Folder | None = self._folders(root)
            if bare:
                *packages, last = bare.split(".")
                for package in packages:
                    home = home.below(package) if home is not None else None
                if home is None:
                    continue
                yield from home.modules(last)
                home = home.below(last) if members else None
            elif home is not None and (initial := home.file("__init__.py")) is not None:
                yield initial
            if home is not None:
                for member in members:
                    yield from home.modules(member)

    def _called(self, names: Iterable[str], roots: Roots) -> Iterator[str]:
        """The files that calls of `import_module` with these names may mean, whatever the names end in."""
        for name in names:
            for root in roots:
                yield from self._meant(root, name, (), (root,))
                package = os.path.join(root, *name.split(".")[:-1])
                inside = self._folders(package) if "." in name else None
                for file in sorted(inside.names) if inside is not None else ():
                    real = inside.file(file) if inside is not None and file.endswith(".py") else None
                    if real is not None:
                        yield real
