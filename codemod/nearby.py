"""Which files may take part in a training, by a look at their bytes: a hook is given a thousand that don't.

Imports are found by a regular expression, and nothing is parsed. Each file is looked at once, and what was learnt about
it serves every other file that imports it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from .program import names_in, search_roots

# What a file that trains names: torch, or a library that runs the training without the script's naming torch.
TRAINING = re.compile(rb"torch|transformers|lightning|fastai|\btrl\b")

# What a program names besides, if there is anything to convert or to refuse in it: gradients (`facts.analysis` asks for
# the same), a trainer of a library (`rules._libraries`), or processes that it starts.
STEPPING = re.compile(
    rb"grad|backward|[Dd]istributed|multiprocessing|spawn|Process|xla|apex"
    rb"|[Tt]rainer|[Ll]earner|NeuralNet|Engine|Runner|LightningCLI|fine_tune|fit_"
)

IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import\b[ \t(]*([^#\n]*)|import[ \t]+([\w., \t]+))", re.MULTILINE
)
CALL = re.compile(rb"(?:import_module|__import__)\s*\(\s*[fF]?[\"']([.\w]+)")
WORD = re.compile(r"\w+")

Roots = tuple[str, ...]
"""Folders in which absolute imports are looked up."""

Look = tuple[bool, bool, list[tuple[bytes, ...]], list[bytes]]
"""Whether a text names what trains, and what steps; its imports, and the names in its calls that import."""


class Nearby:
    """Which files may train: what they name, or what they import names, directly or not.

    Args:
        read: gives the bytes of another file, `None` if there are none; without it, imports are not followed.
    """

    def __init__(self, read: Callable[[str], bytes | None] | None) -> None:
        self._read = read
        self._seen: dict[str, Look] = {}
        self._next: dict[tuple[str, Roots], list[str]] = {}
        self._known: dict[tuple[Roots, int], dict[str, bool]] = {}
        self._roots = lru_cache(maxsize=None)(search_roots)

    def trains(self, path: str, data: bytes) -> bool:
        """Whether there may be anything to convert, or to refuse, in a program that starts from a file."""
        start = os.path.realpath(path)
        if start not in self._seen:
            self._seen[start] = _look(data)
        if self._read is None:
            return self._seen[start][0]
        roots = self._roots(os.path.dirname(start))
        return self._reaches(start, roots, 0) and self._reaches(start, roots, 1)

    def _reaches(self, start: str, roots: Roots, what: int) -> bool:
        """Whether a file, or one that it imports, names what trains (0) or what steps (1)."""
        known = self._known.setdefault((roots, what), {})
        todo, came = [start], {start: ""}
        for file in todo:  # grows while it is gone through
            if known.get(file, self._look_into(file)[what]):
                while file:  # what led here reaches it too
                    known[file] = True
                    file = came[file]
                return True
            for found in [] if file in known else self._imports(file, roots):
                if found not in came:
                    came[found] = file
                    todo.append(found)
        known.update(dict.fromkeys(todo, False))
        return False

    def _imports(self, path: str, roots: Roots) -> list[str]:
        """The files that one may import."""
        found = self._next.get((path, roots))
        if found is None:
            _, _, imports, calls = self._look_into(path)
            paths = (*candidates(path, imports, roots), *called(calls, roots))
            found = [os.path.realpath(file) for file in dict.fromkeys(paths) if os.path.isfile(file)]
            self._next[path, roots] = found
        return found

    def _look_into(self, path: str) -> Look:
        found = self._seen.get(path)
        if found is None:
            found = self._seen[path] = _look((self._read and self._read(path)) or b"")
        return found


def _look(data: bytes) -> Look:
    """What there is to know about a text."""
    return (
        TRAINING.search(data) is not None,
        STEPPING.search(data) is not None,
        [match.groups(b"") for match in IMPORT.finditer(data)],
        [match[1] for match in CALL.finditer(data)] if b"import" in data else [],
    )


def candidates(path: str, imports: Iterable[tuple[bytes, ...]], roots: Roots) -> Iterator[str]:
    """Paths that imports (what `IMPORT` found of each) may mean."""
    for groups in imports:
        base, members, plain = (group.decode() for group in groups)
        level = len(base) - len(base.lstrip("."))
        folders = roots
        if level:
            folders = (os.path.normpath(os.path.join(os.path.dirname(path), *[".."] * (level - 1))),)
        names = [base.lstrip(".")] if base else [part.split()[0] for part in plain.split(",") if part.split()]
        for folder in folders:
            for name in names:
                below = os.path.join(folder, *name.split(".")) if name else folder
                for stem in [below, *(os.path.join(below, member) for member in WORD.findall(members))]:
                    yield f"{stem}.py"
                    yield os.path.join(stem, "__init__.py")


def called(calls: Iterable[bytes], roots: Roots) -> Iterator[str]:
    """Paths that calls of `import_module` with these names may mean, whatever the names end in."""
    for begin in calls:
        name = begin.decode()
        for folder in roots:
            yield os.path.join(folder, *name.split(".")) + ".py"
            package = os.path.join(folder, *name.split(".")[:-1])
            inside = sorted(names_in(package)) if "." in name else []
            yield from (os.path.join(package, file) for file in inside if file.endswith(".py"))
