"""Where in the script the runtime was called."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType, TracebackType

PACKAGE = __name__.rsplit(".", 1)[0]
LIBRARIES = tuple({os.path.realpath(sysconfig.get_paths()[name]) + os.sep for name in ("stdlib", "platstdlib")})
SITE = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
MOST = 4  # lines of the script that tell where it is: the one that calls, and those that lead to it


@dataclass(frozen=True)
class Line:
    """A line of the script, and the function it stands in."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        inside = "" if self.function == "<module>" else f" in {self.function}"
        return f"{_shown(self.file)}:{self.number}{inside}"


def caller() -> tuple[CodeType, int] | None:
    """The place in the script that called into the runtime: code object and line; equal on all ranks."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else (frame.f_code, frame.f_lineno)


def lines(trace: TracebackType | None = None) -> tuple[Line, ...]:
    """The lines of the script that are running, the innermost first, at most `MOST`; empty if there is none.

    Frames of torch, of other installed packages and of the standard library are left out: a progress bar that is
    switched off on some ranks takes other ways inside, from the same line of the script.

    Args:
        trace: of an exception, whose lines are wanted instead.
    """
    frames = [(frame, number) for frame, number in _frames(trace) if not _own(frame)]
    found = [item for item in frames if not _library(item[0].f_code.co_filename)] or frames
    made = [Line(frame.f_code.co_filename, number, frame.f_code.co_name) for frame, number in found]
    top = next((k for k, line in enumerate(made) if line.function == "<module>"), MOST)  # what runs it is no part of it
    return tuple(made[: min(top + 1, MOST)])


def entry(trace: TracebackType | None = None) -> str:
    """What of the runtime the script called, as `runtime.mean()`; "" if it called nothing that has a name."""
    name = ""
    for frame, _ in _frames(trace):
        if _own(frame):
            name = frame.f_code.co_name
        elif name and not _library(frame.f_code.co_filename):
            break
    return f"runtime.{name}()" if name in getattr(sys.modules.get(PACKAGE), "__all__", ()) else ""


def described(found: tuple[Line, ...]) -> str:
    """Lines in words: `train.py:10 in step, called from train.py:31`."""
    return ", called from ".join(str(line) for line in found) or "an unknown line"


def numbers() -> Iterator[tuple[str, object]]:
    """Plain variables of the functions of the script that are running, with where they are."""
    for frame, _ in _frames(None):
        if _own(frame) or _library(frame.f_code.co_filename):
            continue
        for name, value in frame.f_locals.items():
            if isinstance(value, (bool, int, float, str)) and not name.startswith("__") and len(str(value)) < 40:
                yield f"{name} of {_shown(frame.f_code.co_filename)}", value
        if frame.f_code.co_name == "<module>":
            return


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """Frames with the lines they are at, innermost first."""
    if trace is not None:
        steps = []
        step: TracebackType | None = trace
        while step is not None:
            steps.append((step.tb_frame, step.tb_lineno))
            step = step.tb_next
        yield from reversed(steps)
        return
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame, frame.f_lineno
        frame = frame.f_back


def _own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(PACKAGE)


@lru_cache(maxsize=4096)
def _library(file: str) -> bool:
    return file.startswith("<frozen") or os.path.realpath(file).startswith(LIBRARIES) or any(s in file for s in SITE)


def _shown(file: str) -> str:
    """A path as short as it is clear."""
    if not os.path.isabs(file):
        return file
    short = os.path.relpath(file)
    return file if short.startswith(os.pardir) else short
