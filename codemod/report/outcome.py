"""What a format says besides the results: which verb ran, whether files were written, what could not be read."""

from __future__ import annotations

from collections.abc import Sequence

from ..dataclass import dataclass

WORDS = {
    "rewrite": {
        "changed": ("would be rewritten", "rewritten"),
        "refused": ("refused", "refused"),
        "unchanged": ("nothing to do", "nothing to do"),
        "skipped": ("trains no model", "trains no model"),
    },
    "check": {
        "changed": ("would be rewritten by --fix", "rewritten"),
        "refused": ("to be mended by hand", "to be mended by hand"),
        "unchanged": ("nothing to mend", "nothing to mend"),
        "skipped": ("trains no model", "trains no model"),
    },
}
"""What became of a file, by verb and state: before and after writing."""


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

    def told(self, state: str) -> str:
        """What became of a file that is in a state, one of `views.STATES`."""
        return WORDS[self.verb][state][self.written]
