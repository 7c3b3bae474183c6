"""`--report FILE.html`: a page that shows both texts side by side, and for each hunk who changed it and why.

One file that loads nothing from elsewhere, and that can be read without its script, which only adds keys to go from
hunk to hunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..codes import CODES, LEVELS
from ..findings import Finding
from ..links import DOCS, rule_page
from ..phrases import plural
from ..rewrite import Result
from ..templates import report
from ..version import version
from .blocks import Block, bare, blocks, reasons
from .outcome import Outcome
from .sides import rows
from .views import STATES, View, levels, printable


def page(results: Sequence[Result], verb: str, *, written: bool = False, failures: Sequence[str] = ()) -> bytes:
    """The page.

    Args:
        results: of all files; those that are left alone are only counted.
        verb: `rewrite` or `check`.
        written: whether the files that were read hold the results by now.
        failures: one line for each file that could not be read or analysed.
    """
    outcome = Outcome(verb, written, failures)
    views = [View(result) for result in results]
    told = [view for view in views if view.result.changed or view.result.findings]
    found = levels([item for view in views for item in view.result.findings])
    counts = [(outcome.told(state), sum(view.state == state for view in views)) for state in STATES]
    edits = sum(len(view.result.changes) for view in views)
    params = {
        "verb": verb,
        "version": version(),
        "docs": DOCS,
        "counts": [
            *((f"{noun(number, 'file')} {told_as}", number) for told_as, number in counts if number),
            (noun(edits, "change"), edits),
            *((noun(found[level], level), found[level]) for level in LEVELS),
        ],
        "failures": [printable(line) for line in failures],
        "files": [on_file(view, number, outcome) for number, view in enumerate(told, 1)],
    }
    return report("page", params).encode("utf-8", "replace")


def noun(count: int, name: str) -> str:
    """`file` or `files`."""
    return plural(count, name).partition(" ")[2]


def on_file(view: View, number: int, outcome: Outcome) -> dict[str, Any]:
    """What the page shows of one file."""
    parts = list(blocks(view))
    shown = {line.old for block in parts for line in block.lines}
    found = levels(view.result.findings)
    counts = [plural(len(view.result.changes), "change")] if view.result.changes else []
    counts += [plural(found[level], level) for level in LEVELS if found[level]]
    return {
        "id": f"file-{number}",
        "path": view.path,
        "state": view.state,
        "done": outcome.told(view.state),
        "counts": ", ".join(counts),
        "findings": [on_finding(view, item, view.place(item.span).line in shown) for item in view.result.findings],
        "blocks": [on_block(block) for block in parts],
    }


def on_finding(view: View, item: Finding, shown: bool) -> dict[str, Any]:
    """A finding; `shown` says whether its line is in the diff below."""
    place = view.place(item.span)
    source = bare(view.old[place.line - 1]) if place.line <= len(view.old) else ""
    end = place.end_column if place.end_line == place.line else len(source) + 1
    cuts = (source[: place.column - 1], source[place.column - 1 : end - 1], source[end - 1 :])
    return {
        "code": item.code,
        "level": item.level,
        "title": CODES[item.code].title,
        "message": item.message,
        "hint": item.hint,
        "url": rule_page(item.code),
        "line": place.line,
        "column": place.column,
        "shown": shown,
        "source": cuts,
    }


def on_block(block: Block) -> dict[str, Any]:
    """A piece of the diff with its reasons."""
    lines = [line.new for line in block.lines if line.new is not None]
    first, last = (lines[0], lines[-1]) if lines else (block.start[1], block.start[1])
    return {
        "title": f"line {first}" if first == last else f"lines {first} to {last}",
        "reasons": reasons(block.changes),
        "rows": list(rows(block)),
    }
