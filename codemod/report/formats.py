"""The formats of `--format`, each rendered whole; `text` is none of these: `report.text` writes that."""

from __future__ import annotations

from collections.abc import Sequence

from ..rewrite import Result
from .outcome import Outcome

FORMATS = ("text", "json", "github", "sarif", "markdown")
"""What `--format` takes. All but `text` go to standard output as one document, everything else to standard error."""


def render(
    name: str, results: Sequence[Result], verb: str, *, written: bool = False, failures: Sequence[str] = ()
) -> bytes:
    """The results of a verb in a format.

    Args:
        name: one of `FORMATS` but `text`.
        results: of all files, those that are left alone too.
        verb: `rewrite` or `check`.
        written: whether files were written.
        failures: one line for each file that could not be read or analysed.
    """
    outcome = Outcome(verb, written, failures)
    if name == "json":
        from .as_json import render as render_json

        return render_json(results, outcome)
    raise ValueError(f"no such format: {name}")
