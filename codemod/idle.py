"""Hooks on files that train nothing: what they say is known once the files are read.

A hook runs over a thousand files, of which most have nothing to do with training, and its time is that of starting
Python and reading them. So the import of whatever else distify is made of waits until a file may be part of a training.
What is said here is what the work itself would say: `convert` and `check` ask `nearby` the same question, file by file.
"""

from __future__ import annotations

import os

from . import files
from .choices import CHOICES
from .nearby import Nearby

TYPE_CHECKING = False  # as `typing` has it, which takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .plainly import Values

PLAIN = frozenset({"paths", "check", "diff", "partial", "quiet", "follow", "exit_zero", "fix"})
"""What changes nothing where there is nothing to do; choices of `CHOICES` with a right value neither."""


class Busy(Exception):
    """There is more to do, or to say."""


def run(verb: str, values: Values) -> int | None:
    """The exit code of a hook that has nothing to do, after saying so; `None` if it takes more than a look."""
    paths = values["paths"]
    plain = all(name in PLAIN or value in CHOICES.get(name, ()) for name, value in values.items())
    if not plain or "-" in paths:
        return None
    try:
        count = look(paths, bool(values.get("follow", True)))
        if verb == "check":
            configured(paths)
    except (Busy, files.FileError):
        return None
    if verb == "check" and not values.get("quiet"):
        from .report.stream import say

        say([[("nothing found", "green"), (f" in {count} files, 0 of a training script", "")]])
    return 0


def look(paths: Sequence[str], follow: bool) -> int:
    """How many files there are, none of which may be part of a training.

    Raises:
        Busy: one may, or it is the only one, which is told about.
        FileError: one can't be read.
    """
    texts: dict[str, bytes] = {}
    near = Nearby(module_bytes if follow else None)
    for given in paths:
        for path, _ in [(given, "")] if given.endswith(".py") else files.expand([given], leave):
            texts[near.real(path)] = files.read(path)
    if len(texts) < 2 or near.any_trains(texts):
        raise Busy
    return len(texts)


def leave(line: str) -> None:
    """Something is to be said about a file that is left alone."""
    raise Busy


def module_bytes(path: str) -> bytes | None:
    """The bytes of an imported module, `None` if it can't be read: it stays a name."""
    try:
        return files.read(path)
    except files.FileError:
        return None


def configured(paths: Sequence[str]) -> None:
    """Raises `Busy` if a pyproject.toml that counts for a file may say something about distify."""
    known: set[str] = set()
    for folder in map(os.path.abspath, {".", *(path[: path.rfind(os.sep) + 1] for path in paths)}):
        while folder not in known:
            known.add(folder)
            file = os.path.join(folder, "pyproject.toml")
            if os.path.isfile(file):
                if b"distify" in files.read(file):
                    raise Busy
                break
            folder = os.path.dirname(folder)
