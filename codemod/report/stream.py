"""Writes to the terminal: plain bytes and text, with colour only where somebody looks and wants it."""

from __future__ import annotations

import os
import sys

from ..files import FileError, reason

TYPE_CHECKING = False  # as `typing` has it, which takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from rich.console import Console

    from .text import Line

DIFF_STYLES = ((b"+++", "bold"), (b"---", "bold"), (b"@@", "cyan"), (b"+", "green"), (b"-", "red"))
PATIENCE = 1.0
CONTROL = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}


def console(stream: TextIO | None) -> Console | None:
    """A rich console on a stream, or `None` where plain text is due: no terminal, a dumb one, or `NO_COLOR`."""
    if stream is None or not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return None
    from rich.console import Console

    return Console(file=stream, soft_wrap=True, highlight=False)


def harmless(text: str) -> str:
    """A text whose control characters, which would steer the terminal, are spelled out; file names may hold any."""
    return text.translate(CONTROL)


def without_control(line: Line) -> Line:
    """A line whose pieces are harmless."""
    return [(harmless(piece), style) for piece, style in line]


def say(lines: Iterable[Line]) -> None:
    """Prints lines of a report on standard error."""
    if sys.stderr is None:
        return
    fancy = console(sys.stderr)
    for line in map(without_control, lines):
        if fancy is None:
            plain("".join(piece for piece, _ in line))
            continue
        from rich.text import Text

        fancy.print(Text.assemble(*line))


def plain(text: str) -> None:
    """Prints a line on standard error, whatever its encoding can't hold as escapes."""
    encoding = sys.stderr.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)


def complain(message: str) -> None:
    """Prints one line about what went wrong on standard error."""
    say([[("distify: ", "bold"), (" ".join(message.split()), "")]])


def put(data: bytes) -> None:
    """Writes bytes to standard output as they are.

    Raises:
        FileError: it is closed, or the disk is full.
    """
    if sys.stdout is None:
        raise FileError("standard output: closed")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output()
        raise FileError(f"standard output: {reason(error)}") from None


def put_lines(lines: Iterable[Line]) -> None:
    """Writes lines to standard output, in colour on a terminal; what its encoding can't hold as escapes."""
    fancy = console(sys.stdout)
    if fancy is None:
        encoding = (sys.stdout.encoding if sys.stdout is not None else None) or "utf-8"
        texts = ("".join(piece for piece, _ in without_control(line)) for line in lines)
        put("".join(f"{text}\n" for text in texts).encode(encoding, "backslashreplace"))
        return
    from rich.text import Text

    for line in map(without_control, lines):
        fancy.print(Text.assemble(*line))


def drop_output() -> None:
    """Let what standard output still holds go nowhere: it would fail again when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def put_diff(lines: Iterable[bytes]) -> None:
    """Writes a diff to standard output, in colour on a terminal."""
    fancy = console(sys.stdout)
    if fancy is None:
        put(b"".join(lines))
        return
    from rich.text import Text

    for line in lines:
        style = next((style for start, style in DIFF_STYLES if line.startswith(start)), "")
        fancy.print(Text(line.decode("utf-8", "replace").rstrip("\r\n"), style))


class Progress:
    """What is being read, shown on a terminal when it takes longer than a second; it goes away at the end."""

    def __init__(self, show: bool) -> None:
        fancy = console(sys.stderr) if show else None
        self.status = None if fancy is None else fancy.status("")

    def at(self, text: str) -> None:
        """Says what comes now."""
        if self.status is not None:
            self.status.update(text)

    def __enter__(self) -> Progress:
        if self.status is not None:
            import threading

            self.timer = threading.Timer(PATIENCE, self.status.start)
            self.timer.daemon = True
            self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is not None:
            self.timer.cancel()
            self.status.stop()
