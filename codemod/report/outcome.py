"""What a format says besides the results: which verb ran, whether files were written, what could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata


@dataclass(frozen=True)
class Outcome:
    """How a verb went.

    Attributes:
        verb: `rewrite` or `check`.
        written: whether the files that were read hold the results by now (not so with `--diff`, `--check` or `-o`).
        failures: one line for each file that could not be read or analysed.
    """

    verb: str
    written: bool = False
    failures: Sequence[str] = ()

    @property
    def version(self) -> str:
        """Of distify."""
        return metadata.version("torch-distify")
