"""Shows how far the runs are, on a terminal; elsewhere one line for each run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..report.stream import complain, console
from .numbers import difference

if TYPE_CHECKING:
    from rich.status import Status

EVERY = 0.25  # seconds between two updates


class Follower:
    """Reads the losses of a trace while it is written.

    Args:
        paths: where they may be; the first that has any counts.
    """

    def __init__(self, *paths: Path) -> None:
        self.files = dict.fromkeys(paths, 0)
        self.found: dict[Path, list[float]] = {path: [] for path in paths}

    def read(self) -> list[float]:
        """All losses so far."""
        for path, offset in self.files.items():
            try:
                with path.open("rb") as file:
                    file.seek(offset)
                    data = file.read()
            except OSError:
                continue
            end = data.rfind(b"\n") + 1
            self.files[path] = offset + end
            events = [json.loads(line) for line in data[:end].splitlines()]
            self.found[path] += [float(event["loss"]) for event in events if "loss" in event]
        return next((losses for losses in self.found.values() if losses), [])


class Watch:
    """What is shown while programs run.

    Args:
        quiet: whether nothing is.
    """

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.fancy = None if quiet else console(sys.stderr)
        self.status: Status | None = None
        self.name = ""
        self.next = 0.0
        self.follower = Follower()
        self.expected: list[float] = []

    @contextmanager
    def phase(self, name: str, follower: Follower, expected: list[float]) -> Iterator[None]:
        """One run.

        Args:
            name: "original on 1 process".
            follower: reads its losses.
            expected: those of the run that it is compared with, if that is over.
        """
        self.name, self.follower, self.expected, self.next = name, follower, expected, 0.0
        if self.fancy is None:
            if not self.quiet:
                complain(f"running the {name}")
            yield
            return
        with self.fancy.status(f"{name}: starts") as self.status:
            yield

    def look(self, seconds: float) -> None:
        """Show how far it is."""
        if self.status is None or time.monotonic() < self.next:
            return
        self.next = time.monotonic() + EVERY
        self.status.update(self.line(seconds, self.follower.read()))

    def line(self, seconds: float, losses: list[float]) -> str:
        """One line that fits a terminal."""
        name = self.name.partition(" on ")[0].replace(" script", "")
        if not losses:
            return f"{name}: {seconds:.0f} s"
        total = f" of {len(self.expected)}" if self.expected else ""
        text = f"{name}: {seconds:.0f} s, backward {len(losses)}{total}, loss {losses[-1]:.5g}"
        if self.expected:
            worst = max((difference(a, b) for a, b in zip(self.expected, losses)), default=0.0)
            text += f", difference {worst:.0e}"
        return text
