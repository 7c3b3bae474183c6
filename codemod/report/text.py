"""The report in plain words: what was converted, what was found, how to launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..dataclass import dataclass
from ..findings import Finding
from ..fstrings import Text
from ..phrases import plural
from ..rewrite import Result

STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}

Line = list[tuple[str, str]]
"""Pieces of one line, each with its rich style."""


@dataclass(frozen=True)
class Wording:
    """How much is said: `quiet` leaves errors only, `verbose` adds files that are left alone, `named` those that
    were named by the user; `done` is the verb."""

    quiet: bool = False
    verbose: bool = False
    named: bool = False
    done: str = "converted"


def report(results: Sequence[Result], wording: Wording, written: bool, scripts: Sequence[str]) -> Iterator[Line]:
    """The report on several files.

    Args:
        results: in the order given by the user.
        wording: how much is said.
        written: whether files were written, or would be without `--check` and `--diff`.
        scripts: paths of converted files that a run starts from.
    """
    for result in results:
        yield from on_file(result, wording, written)
    if not wording.quiet:
        for script in scripts:
            yield [("launch: ", "bold"), (launch(script), "")]


def on_file(result: Result, wording: Wording, written: bool) -> Iterator[Line]:
    """The report on one file: a headline, then its findings by place."""
    headline = summary(result, wording, written)
    if headline:
        yield [(result.path, "bold"), (f": {headline}", "")]
    text = Text(result.text)
    for item in result.findings:
        if not wording.quiet or item.level == "error":
            yield from on_finding(result.path, item, text)


def summary(result: Result, wording: Wording, written: bool) -> str:
    """What happened to a file, in a phrase; nothing where nobody asked."""
    errors = sum(item.level == "error" for item in result.findings)
    if result.changed and written:
        kinds = ", ".join(f"{kind} {count}" for kind, count in result.counts.items())
        left = "as it was" if errors == 1 else "as they were"
        rest = f"; {plural(errors, 'place')} refused and left {left}" if errors else ""
        return "" if wording.quiet else f"{wording.done}: {kinds}{rest}"
    if errors:
        rest = "; --partial converts the rest" if result.rest else ""
        return f"not converted, {plural(errors, 'place')} refused{rest}"
    if result.changed:
        return "not converted, since another file was refused; --partial converts the rest"
    if wording.quiet or (result.followed and not wording.verbose):
        return ""
    if result.training:
        return "nothing to do" if result.followed else "nothing to do, already converted"
    return "left alone, it trains no model" if wording.verbose or wording.named else ""


def on_finding(path: str, item: Finding, text: Text) -> Iterator[Line]:
    """`train.py:41:9 DST203 warning: message`, and what to do on a line of its own."""
    column = text.offset(item.span.line, item.span.column) - text.starts[item.span.line - 1] + 1
    place = f"{path}:{item.span.line}:{column} {item.code} "
    yield [(place, ""), (item.level, STYLES[item.level]), (f": {item.message}", "")]
    if item.hint:
        yield [(f"    {item.hint}", "dim")]


def launch(path: str) -> str:
    """The command that starts a converted script on two processes."""
    import shlex

    return f"torchrun --nproc-per-node 2 {shlex.quote(path)}"
