"""`--report FILE.html`: a page that shows both texts side by side, and for each hunk who changed it and why.

One file that loads nothing from elsewhere, and that can be read without its script, which only adds keys to go from
hunk to hunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..findings import Finding
from ..links import DOCS, rule_page
from ..phrases import plural
from ..rewrite import Result
from ..templates import report
from ..version import version
from .blocks import Block, bare, blocks, reasons
from .outcome import Outcome
from .sides import rows
from .views import View, amount, edits, entry, levels, printable, states


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
    changed = edits(results)
    params = {
        "verb": verb,
        "version": version(),
        "docs": DOCS,
        "counts": [
            *(
                (f"{noun(number, 'file')} {outcome.told(state)}", number)
                for state, number in states(views).items()
                if number
            ),
            (noun(changed, "change"), changed),
            *((noun(number, level), number) for level, number in levels(results).items()),
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
    return {
        "id": f"file-{number}",
        "path": view.path,
        "state": view.state,
        "done": outcome.told(view.state),
        "counts": ", ".join(amount(view.result)),
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
        **entry(item),
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
