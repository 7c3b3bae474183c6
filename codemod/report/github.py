"""`--format github`: workflow commands, which GitHub Actions shows beside the lines of a pull request.

Commands are lines `::level name=value,…::text`. Whatever would end a line, a value or the list is escaped, so that a
file name or a message can't begin another command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..codes import CODES, LEVELS
from ..rewrite import Result
from .outcome import Outcome
from .roots import Root
from .views import Place, Shown, View, printable

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(results: Sequence[Result], outcome: Outcome) -> bytes:
    """Annotations: what could not be read, findings by level, then changes of a rewrite.

    GitHub shows ten of each command.
    """
    root = Root()
    views = [View(result, outcome.written) for result in results]
    lines = [command("error", f"distify {outcome.verb}", message) for message in outcome.failures]
    for level in LEVELS:
        lines += [line for view in views for line in findings(view, level, root)]
    if outcome.verb == "rewrite" and not outcome.written:
        lines += [change(view, shown, root) for view in views for shown in view.hunks if shown.changes]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def findings(view: View, level: str, root: Root) -> Iterator[str]:
    """The findings of a level in one file."""
    for item in view.result.findings:
        if item.level == level:
            text = f"{item.message}\n{item.hint}" if item.hint else item.message
            title = f"{item.code} {CODES[item.code].title}"
            yield command(COMMANDS[level], title, text, located(view, view.placed(item.span), root))


def change(view: View, shown: Shown, root: Root) -> str:
    """What a rewrite would change in some lines."""
    hunk = shown.hunk
    first, last = min(hunk.old + 1, max(len(view.old), 1)), max(hunk.old_end, hunk.old + 1)
    place = Place(first, 1, max(first, min(last, len(view.old))), 1)
    kinds = dict.fromkeys(item.kind for item in shown.changes)
    reasons = dict.fromkeys(f"{item.kind}: {item.reason}" for item in shown.changes)
    return command("notice", f"distify rewrite: {', '.join(kinds)}", "\n".join(reasons), located(view, place, root))


def located(view: View, place: Place, root: Root) -> dict[str, str | int]:
    """The properties of a place; columns only where they are in one line, as GitHub has it."""
    path = root.relative(view.result.path)
    found: dict[str, str | int] = {"file": view.path if path is None else printable(path), "line": place.line}
    found["endLine"] = place.end_line
    if place.line == place.end_line and place.end_column > place.column:
        found |= {"col": place.column, "endColumn": place.end_column}
    return found


def command(name: str, title: str, text: str, properties: dict[str, str | int] | None = None) -> str:
    """A workflow command."""
    told = {**(properties or {}), "title": title}
    return f"::{name} {','.join(f'{key}={value_of(str(value))}' for key, value in told.items())}::{data_of(text)}"


def data_of(text: str) -> str:
    """A text in which nothing ends the line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def value_of(text: str) -> str:
    """A value in which nothing ends the value."""
    return data_of(text).replace(":", "%3A").replace(",", "%2C")
