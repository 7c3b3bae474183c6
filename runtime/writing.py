"""Why a file could not be written, in one line: torch's writer tells of a full disk as "unexpected pos 704 vs 598"."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .state import DistifyError

ENOUGH = 1 << 20  # bytes that tell whether anything can be written


class WriteError(DistifyError, OSError):
    """A file can't be written; the message names it and the reason. What was there before is unchanged."""


@contextmanager
def explained(what: str, folder: str) -> Iterator[None]:
    """Around the writing of a file.

    Args:
        what: the message begins with it.
        folder: where the bytes go, before they are renamed.

    Raises:
        WriteError: in place of an `OSError`, or of a `RuntimeError` of torch where the folder can't be written.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        reason = error if isinstance(error, OSError) else _refusal(folder)
        if reason is None or isinstance(error, WriteError):
            raise
        place = f" ({reason.filename})" if reason.filename is not None and reason is error else ""
        new = WriteError(f"{what}{reason.strerror or reason}{place}")
        new.errno = reason.errno
        raise new from error


def _refusal(folder: str) -> OSError | None:
    """What the system says to a file in a folder, `None` if it can be written."""
    file = os.path.join(folder, f"{os.getpid()}.probe")
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            left = ENOUGH
            while left:
                left -= os.write(handle, bytes(left))
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        return error
    finally:
        with suppress(OSError):
            os.remove(file)
    return None
