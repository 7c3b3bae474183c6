"""The report of `distify check` in plain words: findings by place, and how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ..codes import Level
from ..fstrings import Text
from ..rewrite import Result
from .text import Line, on_finding
from .views import plural

LEVELS: tuple[Level, ...] = ("error", "warning", "note")


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
    counts = Counter(item.level for result in results for item in result.findings)
    training = sum(result.training for result in results)
    looked = f"{plural(len(results), 'file')}, {training} of a training script"
    if not counts:
        yield [("nothing found", "green"), (f" in {looked}", "")]
        return
    told = ", ".join(plural(counts[level], level) for level in LEVELS if counts[level])
    yield [(told, "bold"), (f" in {looked}", "")]
    mended = [result for result in results if result.changed]
    if mended:
        yield [(f"--fix changes {plural(len(mended), 'file')}; distify rewrite --diff shows how", "dim")]
