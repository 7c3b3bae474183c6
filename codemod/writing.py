"""Replaces files: nothing is lost, nothing is left half-written."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator

from .dataclass import dataclass
from .files import FileError, check_regular, read, reason


class PartlyWritten(FileError):
    """Some files could not be written, and others could not be given their former bytes back."""


@contextlib.contextmanager
def all_or_nothing() -> Iterator[None]:
    """What fails in here says that nothing was written, unless it says what was."""
    try:
        yield
    except PartlyWritten:
        raise
    except FileError as error:
        raise FileError(f"{error}; nothing was written") from None


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


def other_names(path: str) -> int:
    """How many more names (hard links) a file has, which keep the old text when it is replaced."""
    try:
        return os.stat(path).st_nlink - 1
    except OSError:
        return 0


def write_all(replacements: Iterable[Replacement]) -> None:
    """Writes files: each into a temporary file beside it first, and only when all are on the disk, each is renamed.

    Links are written through, the mode is kept. Where a rename fails, those before it are undone.

    Raises:
        FileError: one of them can't be written or has changed since it was read; then none is written.
        PartlyWritten: some are, since a rename failed and those before it can't be undone.
    """
    ready: list[tuple[str, str, Replacement]] = []
    done: list[tuple[str, bytes | None]] = []
    try:
        for item in replacements:
            target = os.path.realpath(item.path)
            ready.append((prepare(target, item), target, item))
        held = [read(target) if os.path.exists(target) else None for _, target, _ in ready]
        for (_, _, item), now in zip(ready, held, strict=True):
            if item.before is not None and now != item.before:
                raise FileError(f"{item.path}: changed while it was converted; run distify again")
        while ready:
            temporary, target, item = ready[0]
            try:
                os.replace(temporary, target)
            except OSError as error:
                lost = undo(done)
                if lost:
                    raise PartlyWritten(
                        f"{item.path}: {reason(error)}; written all the same: {', '.join(lost)}"
                    ) from None
                raise FileError(f"{item.path}: {reason(error)}") from None
            done.append((target, held[len(done)]))
            del ready[0]
            sync_folder(os.path.dirname(target))
    finally:
        for temporary, _, _ in ready:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def undo(done: Iterable[tuple[str, bytes | None]]) -> list[str]:
    """Gives files their former bytes back; returns those that it could not."""
    lost = []
    for target, data in done:
        try:
            if data is None:
                os.unlink(target)
            else:
                os.replace(prepare(target, Replacement(target, data)), target)
        except (OSError, FileError):
            lost.append(target)
    return lost


def prepare(target: str, item: Replacement) -> str:
    """Writes the bytes into a temporary file beside the target and returns its name."""
    import tempfile

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
