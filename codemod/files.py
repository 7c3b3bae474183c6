"""Finds and reads files: links, pipes, devices and folders that can't be read have a clear outcome each."""

from __future__ import annotations

import os
import stat

from .folders import Folders, within

TYPE_CHECKING = False  # as `typing` has it, which takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import IO

SKIPPED = frozenset({"__pycache__", "site-packages", "node_modules", "__pypackages__"})
# Without waiting, and before anything is known of it: a pipe may be one that nobody writes to.
OPENING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)
LIMIT = 10 << 20  # bytes of a file; a script that is larger holds data


class FileError(Exception):
    """A file that can't be read or written; one line for the user."""


class TooLarge(FileError):
    """A file that is larger than any script."""


def reason(error: OSError) -> str:
    """What the system says, in lower case as in all our messages."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def read(path: str) -> bytes:
    """The bytes of a regular file (or of what a link leads to).

    Raises:
        FileError: missing, no regular file, a notebook, too large, or not readable.
    """
    try:
        if path.endswith(".ipynb") and os.path.isfile(path):
            raise FileError(f"{path}: a notebook; export it first: jupyter nbconvert --to script {path}")
        handle = os.open(path, OPENING)
        try:
            status = os.fstat(handle)
            check_regular(path, status.st_mode)
            return whole(path, handle, status.st_size)
        finally:
            os.close(handle)
    except FileNotFoundError:
        if os.path.islink(path):
            raise FileError(f"{path}: a link to nothing: {os.readlink(path)}") from None
        raise FileError(f"{path}: no such file{similar(path)}") from None
    except (OSError, ValueError) as error:
        if not isinstance(error, ValueError) and os.path.exists(path):
            check_regular(path, os.stat(path).st_mode)  # a socket, say
        raise FileError(f"{path}: {reason(error) if isinstance(error, OSError) else error}") from None


def whole(name: str, handle: int, size: int) -> bytes:
    """All that is in an open file of about a size, in as few calls of the system as there may be.

    Raises:
        TooLarge: it is more than a script can be.
    """
    parts: list[bytes] = []
    length, wanted = 0, min(size, LIMIT) + 1
    while part := os.read(handle, wanted):
        parts.append(part)
        length += len(part)
        if length > LIMIT:
            raise too_large(name)
        if length == size:
            break  # one byte more was asked for
        wanted = 1 << 16  # the end is still to be seen
    return parts[0] if len(parts) == 1 else b"".join(parts)


def limited(name: str, file: IO[bytes]) -> bytes:
    """All that is in an open file.

    Raises:
        TooLarge: it is more than a script can be.
    """
    data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise too_large(name)
    return data


def too_large(name: str) -> TooLarge:
    """What is said of a file that is larger than any script."""
    return TooLarge(f"{name}: larger than {LIMIT >> 20} MB, which no script is; keep data in a file of its own")


def check_regular(path: str, mode: int) -> None:
    """Raises `FileError` for folders, devices, pipes and sockets."""
    if not stat.S_ISREG(mode):
        raise FileError(f"{path}: {'is a folder' if stat.S_ISDIR(mode) else 'not a regular file'}")


def similar(path: str) -> str:
    """A phrase that names a file of the same folder with a similar name, or nothing."""
    import contextlib
    import difflib

    folder, name = os.path.split(path)
    with contextlib.suppress(OSError):
        close = difflib.get_close_matches(name, os.listdir(folder or "."), 1, 0.7)
        if close:
            return f", did you mean '{os.path.join(folder, close[0])}'?"
    return ""


def expand(paths: Iterable[str], leave: Callable[[str], None] = lambda line: None) -> Iterator[tuple[str, str]]:
    """The files to convert, each once, with the folder that they were found through ("" for a file given by name).

    Folders are searched for `.py` files; hidden folders, virtual environments and installed packages are left out, and
    links that lead out of the folder.

    Args:
        paths: files and folders.
        leave: is told of files that are left alone, one line each.

    Raises:
        FileError: a path doesn't exist, or a folder can't be read.
    """
    seen: set[str] = set()
    folders = Folders()
    for path in paths:
        if not os.path.isdir(path):
            found = [path]
        else:
            found = sorted(walk(path, leave))
        for file in found:
            real = folders.real(file)
            if real not in seen:
                seen.add(real)
                yield file, "" if file is path else path


def walk(folder: str, leave: Callable[[str], None] = lambda line: None) -> Iterator[str]:
    """The `.py` files below a folder, however deep it is.

    Raises:
        FileError: a folder can't be read.
    """
    top, todo = os.path.realpath(folder), [folder]
    while todo:
        parent = todo.pop()
        for name in names_in(parent):
            here = parent in (os.curdir, f"{os.curdir}{os.sep}") and not name.startswith("-")
            path = name if here else os.path.join(parent, name)
            if name.startswith("."):
                continue
            if os.path.isdir(path):
                outside = name in SKIPPED or os.path.exists(os.path.join(path, "pyvenv.cfg"))
                if not outside and not os.path.islink(path):
                    todo.append(path)
            elif name.endswith(".py") and os.path.isfile(path):
                if within(os.path.realpath(path), top) or not os.path.islink(path):
                    yield path
                else:
                    hint = "name it to convert what it leads to"
                    leave(f"{path}: a link that leads out of {folder} is left alone; {hint}")


def names_in(folder: str) -> list[str]:
    """What is in a folder.

    Raises:
        FileError: it can't be read.
    """
    try:
        return os.listdir(folder)
    except OSError as error:
        raise FileError(f"{folder}: {reason(error)}") from None


__all__ = ["FileError", "TooLarge", "expand", "limited", "names_in", "read", "reason", "walk", "within"]
