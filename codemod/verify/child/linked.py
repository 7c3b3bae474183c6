"""Copies before writing: a link into the project becomes a file of the scratch copy when a script opens it to write."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .settings import Facts, Settings

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
# Audit events that change a file or folder: which of their arguments name it, and whether a link there is followed.
EVENTS = {
    "os.mkdir": ((0,), False),
    "os.rename": ((0, 1), False),
    "os.remove": ((0,), False),
    "os.rmdir": ((0,), False),
    "os.symlink": ((1,), False),
    "os.link": ((1,), False),
    "os.truncate": ((0,), True),
    "os.chmod": ((0,), True),
    "os.utime": ((0,), True),
}
ELSEWHERE = ("/dev/", "/proc/", "/sys/")
CACHES = (".cache", ".config", ".triton", ".nv", "__pycache__", "site-packages", "dist-packages")


class Untouchable(PermissionError):
    """A file of the project itself, which stays as it is."""


class Links:
    """The links of one scratch copy.

    Only what Python opens is seen, and `torch.save`: a library that opens files by itself may write through a link.

    Args:
        settings: where the copy is, and of what.
        facts: is told what is written elsewhere.
    """

    def __init__(self, settings: Settings, facts: Facts) -> None:
        self.root, self.source = settings.root, settings.source
        self.lock = f"{settings.root}.lock"
        self.facts = facts
        self.quiet = (*ELSEWHERE, tempfile.gettempdir() + os.sep, settings.notes)
        self.thread = threading.local()

    def watch(self) -> None:
        """From now on, before a file is opened to be written, make it one of the copy."""
        sys.addaudithook(self.hook)

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        """An audit hook; what fails in it must not fail the script."""
        if getattr(self.thread, "busy", False) or (event != "open" and event not in EVENTS):
            return
        self.thread.busy = True
        try:
            if event == "open":
                path, mode, flags = args
                writes = bool(flags & WRITING) if isinstance(flags, int) else bool(set(mode or "") & set("wax+"))
                if writes:
                    self.own(path, follow=True, empty=isinstance(flags, int) and bool(flags & os.O_TRUNC))
                return
            places, follow = EVENTS[event]
            for place in places:
                self.own(args[place], follow)
        except Untouchable:
            raise
        except Exception:
            return
        finally:
            self.thread.busy = False

    def own(self, path: Any, follow: bool = True, empty: bool = False) -> None:
        """Make a path one of the copy's own.

        Args:
            path: any; what is no path, such as a descriptor, is left alone.
            follow: whether a link at the path itself is replaced too.
            empty: whether its contents are about to be dropped.

        Raises:
            Untouchable: it is one of the project itself.
        """
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        full = os.path.abspath(os.fsdecode(path))
        if not full.startswith(self.root + os.sep):
            self.tell(full)
            return
        parts = os.path.relpath(full, self.root).split(os.sep)
        for count in range(1, len(parts) + (1 if follow else 0)):
            place = os.path.join(self.root, *parts[:count])
            if os.path.islink(place) and self.leads_out(place):
                with self.locked():
                    if os.path.islink(place):
                        replace(place, empty and count == len(parts))

    def before(self, write: Callable[..., Any], place: int) -> Callable[..., Any]:
        """A function that makes its argument at a place one of the copy's own, and then does what it did."""

        @functools.wraps(write)
        def written(*args: Any, **options: Any) -> Any:
            if len(args) > place:
                self.own(args[place])
            elif "f" in options:
                self.own(options["f"])
            return write(*args, **options)

        return written

    def leads_out(self, place: str) -> bool:
        """Whether a link leads out of the copy."""
        return not os.path.realpath(place).startswith(os.path.realpath(self.root) + os.sep)

    def tell(self, path: str) -> None:
        """Note a place outside that is written.

        Raises:
            Untouchable: it is in the project itself, by a full path or through a link that was followed before.
        """
        if any(name in CACHES for name in path.split(os.sep)):
            return
        if path.startswith(self.source + os.sep) and not path.startswith(os.path.dirname(self.root) + os.sep):
            raise Untouchable(
                errno.EACCES,
                "distify verify runs copies and leaves the project alone; this is a full path into it",
                path,
            )
        if not path.startswith(self.quiet):
            self.facts.note("outside", [path])

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time changes links."""
        import fcntl

        with open(self.lock, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def replace(place: str, empty: bool) -> None:
    """Put a copy in place of a link to a file; in place of one to a folder, a folder of links."""
    target = os.path.realpath(place)
    made = f"{place}.distify-{os.getpid()}"
    if os.path.isdir(target):
        os.mkdir(made)
        for name in os.listdir(target):
            os.symlink(os.path.join(target, name), os.path.join(made, name))
        os.unlink(place)  # a folder can't be renamed over a link
    elif not empty and os.path.exists(target):
        shutil.copy2(target, made)
    else:
        os.unlink(place)
        return
    try:
        os.rename(made, place)
    except OSError:
        with suppress(OSError):
            shutil.rmtree(made)
