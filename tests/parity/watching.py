"""Tells what a process writes below the working folder; hooks of the interpreter stay, so that all runs share one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


class Watch:
    """Notes what is written while it is on."""

    def __init__(self) -> None:
        self.written: list[str] | None = None
        sys.addaudithook(self.hear)

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self.written is None:
            return
        if event == "open":
            path, mode, flags = args
            wrote = isinstance(flags, int) and bool(flags & WRITING)
            wrote = wrote or (isinstance(mode, str) and bool(set(mode) & set("wax+")))
        elif event in ("os.rename", "os.remove", "shutil.copyfile", "shutil.move"):
            path, wrote = args[-1] if event.startswith("shutil") else args[0], True
        else:
            return
        if wrote and isinstance(path, (str, bytes, os.PathLike)):
            full = os.path.abspath(os.fsdecode(path))
            if full.startswith(os.getcwd() + os.sep):
                self.written.append(f"{event} {full}")


@lru_cache(maxsize=None)
def watch() -> Watch:
    return Watch()


@contextmanager
def watching() -> Iterator[list[str]]:
    """What is written in here."""
    save = torch.save
    written: list[str] = []

    def recorded_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(f, (str, os.PathLike)):  # written by C++, which raises no audit event
            written.append(f"torch.save {f}")
        return save(obj, f, *args, **kwargs)

    watch().written, torch.save = written, recorded_save
    try:
        yield written
    finally:
        watch().written, torch.save = None, save
