"""Finds, reads and replaces files: nothing is lost, nothing is left half-written."""

from __future__ import annotations

import contextlib
import difflib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SKIPPED = frozenset({"__pycache__", "site-packages", "node_modules", "__pypackages__"})


class FileError(Exception):
    """A file that can't be read or written; one line for the user."""


@dataclass(frozen=True)
class Replacement:
    """New bytes for a file.

    Attributes:
        path: where they go.
        data: what is written.
        before: what the file must still hold, `None` if it need not exist.
        like: a file whose mode a new file gets.
    """

    path: str
    data: bytes
    before: bytes | None = None
    like: str | None = None


def reason(error: OSError) -> str:
    """What the system says, in lower case as in all our messages."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def read(path: str) -> bytes:
    """The bytes of a regular file (or of what a link leads to).

    Raises:
        FileError: missing, no regular file, or not readable.
    """
    try:
        check_regular(path, os.stat(path).st_mode)
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        if os.path.islink(path):
            raise FileError(f"{path}: a link to nothing: {os.readlink(path)}") from None
        raise FileError(f"{path}: no such file{similar(path)}") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: {reason(error) if isinstance(error, OSError) else error}") from None


def check_regular(path: str, mode: int) -> None:
    """Raises `FileError` for folders, devices, pipes and sockets."""
    if stat.S_ISDIR(mode):
        raise FileError(f"{path}: is a folder")
    if not stat.S_ISREG(mode):
        raise FileError(f"{path}: not a regular file")


def similar(path: str) -> str:
    """A phrase that names a file of the same folder with a similar name, or nothing."""
    folder, name = os.path.split(path)
    with contextlib.suppress(OSError):
        close = difflib.get_close_matches(name, os.listdir(folder or "."), 1, 0.7)
        if close:
            return f", did you mean '{os.path.join(folder, close[0])}'?"
    return ""


def expand(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The files to convert, each once, with the folder that they were found through ("" for a file given by name).

    Folders are searched for `.py` files; hidden folders, virtual environments and installed packages are left out.

    Raises:
        FileError: a path doesn't exist, or a folder can't be read.
    """
    seen: set[str] = set()
    for path in paths:
        if not os.path.isdir(path):
            found = [path]
        else:
            found = sorted(walk(path))
        for file in found:
            real = os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                yield file, "" if file is path else path


def walk(folder: str) -> Iterator[str]:
    """The `.py` files below a folder."""

    def fail(error: OSError) -> None:
        raise FileError(f"{error.filename}: {reason(error)}") from None

    for parent, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in SKIPPED
            and not os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))
        ]
        for name in names:
            file = os.path.join(parent, name)
            if name.endswith(".py") and not name.startswith(".") and os.path.isfile(file):
                yield file


def write_all(replacements: Iterable[Replacement]) -> None:
    """Writes files: each into a temporary file beside it first, and only when all are on the disk, each is renamed.

    Links are written through, the mode is kept.

    Raises:
        FileError: one of them can't be written or has changed since it was read; then none is written.
    """
    ready: list[tuple[str, str, Replacement]] = []
    try:
        for item in replacements:
            target = os.path.realpath(item.path)
            ready.append((prepare(target, item), target, item))
        for _, target, item in ready:
            if item.before is not None and read(target) != item.before:
                raise FileError(f"{item.path}: changed while it was converted; run distify again")
        while ready:
            temporary, target, item = ready[0]
            try:
                os.replace(temporary, target)
            except OSError as error:
                raise FileError(f"{item.path}: {reason(error)}") from None
            del ready[0]
            sync_folder(os.path.dirname(target))
    finally:
        for temporary, _, _ in ready:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def prepare(target: str, item: Replacement) -> str:
    """Writes the bytes into a temporary file beside the target and returns its name."""
    folder = os.path.dirname(target)
    try:
        os.makedirs(folder, exist_ok=True)
        exists = os.path.exists(target)
        if exists:
            check_regular(item.path, os.stat(target).st_mode)
            if not os.access(target, os.W_OK):
                raise FileError(f"{item.path}: read-only")
        handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(target)}.", suffix=".tmp", dir=folder)
    except OSError as error:
        raise FileError(f"{item.path}: {reason(error)}") from None
    try:
        with open(handle, "wb") as file:
            file.write(item.data)
            file.flush()
            os.fsync(file.fileno())
        copy_mode(target if exists else item.like, temporary)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError):
            raise FileError(f"{item.path}: {reason(error)}") from None
        raise
    return temporary


def copy_mode(model: str | None, temporary: str) -> None:
    """Gives a new file the mode of another one and, where the system allows it, its owner."""
    if model is None or not os.path.exists(model):
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        return
    status = os.stat(model)
    with contextlib.suppress(OSError, AttributeError):
        os.chown(temporary, status.st_uid, status.st_gid)
    os.chmod(temporary, stat.S_IMODE(status.st_mode))


def sync_folder(folder: str) -> None:
    """Makes a rename last through a power cut, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
