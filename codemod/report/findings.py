"""The report of `distify check` in plain words: findings by place, and how many there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..fstrings import Text
from ..phrases import plural
from ..rewrite import Result
from .text import Line, on_finding
from .views import levels


def listing(results: Sequence[Result], quiet: bool) -> Iterator[Line]:
    """All findings, by file and place; without notes if `quiet`."""
    for result in results:
        text = Text(result.text)
        for item in result.findings:
            if not (quiet and item.level == "note"):
                yield from on_finding(result.path, item, text)


def summary(results: Sequence[Result], fixed: Sequence[Result]) -> Iterator[Line]:
    """How much was found, what was mended, and what could be."""
    for result in fixed:
        kinds = ", ".join(f"{kind} {count}" for kind, count in result.counts.items())
        yield [(result.path, "bold"), (f": fixed: {kinds}", "")]
    counts = levels(results)
    training = sum(result.training for result in results)
    looked = f"{plural(len(results), 'file')}, {training} of a training script"
    if not any(counts.values()):
        yield [("nothing found", "green"), (f" in {looked}", "")]
        return
    told = ", ".join(plural(count, level) for level, count in counts.items() if count)
    yield [(told, "bold"), (f" in {looked}", "")]
    mended = [result for result in results if result.changed]
    if mended:
        yield [(f"--fix changes {plural(len(mended), 'file')}; distify rewrite --diff shows how", "dim")]
