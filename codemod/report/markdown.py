"""`--format markdown`: a comment for a pull request, which takes 65,536 characters at most.

A summary, then a section for each file that opens on a click: its findings, and its diff in pieces, each below the
reasons for it. Whatever comes from a file is shown as it is: it neither ends a fence nor mentions a person.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from ..findings import Finding
from ..links import rule_page
from ..phrases import plural
from ..rewrite import Result
from .blocks import Block, blocks, reasons
from .outcome import Outcome
from .views import View, amount, edits, levels, printable, states, units

LIMIT = 65_536  # characters, as the strictest count has it: UTF-16 code units
FAILURES = 20  # are named
SMALL = 200  # characters in which nothing more can be said
FULL, FINDINGS, NAME = 0, 1, 2
SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~&])")
CALLING = re.compile(r"(?<=[@#])(?=\w)")


def render(results: Sequence[Result], outcome: Outcome) -> bytes:
    """A comment in the Markdown of GitHub."""
    views = [View(result, outcome.written) for result in results]
    told = [view for view in views if view.result.changed or view.result.findings]
    failures = [f"- **error** {escaped(printable(line))[:500]}" for line in outcome.failures[:FAILURES]]
    more = len(outcome.failures) - len(failures)
    failures += [f"- and {more} more"] if more else []
    top = "\n".join([headline(views, outcome), *([""] if failures else []), *failures, ""])
    return fitted(top, told, outcome).encode("utf-8", "replace")


def headline(views: Sequence[View], outcome: Outcome) -> str:
    """The summary in a heading and a line."""
    count = states(views)
    parts = [
        f"{plural(count[state], 'file')} {outcome.told(state)}" for state in ("changed", "refused") if count[state]
    ]
    parts += [f"{plural(len(outcome.failures), 'file')} could not be read"] if outcome.failures else []
    results = [view.result for view in views]
    counts = [*(plural(number, level) for level, number in levels(results).items()), plural(edits(results), "change")]
    if outcome.verb == "check" and not parts:
        parts = [plural(number, level) for level, number in levels(results).items() if number] or ["nothing found"]
    said = ", ".join(parts) or "nothing to change"
    return f"### distify {outcome.verb}: {said}\n\n{plural(len(views), 'file')} looked at: {', '.join(counts)}."


def fitted(top: str, views: Sequence[View], outcome: Outcome) -> str:
    """The comment, with as much about each file as there is room for: all, its findings, or its name."""
    text = top
    for view in views:
        text += section(view, FULL, outcome)
        if units(text) > LIMIT:
            break
    else:
        return text
    room = LIMIT - units(top) - units(note(len(views), len(views)))
    told: list[str] = []
    for view in views:
        name = section(view, NAME, outcome)
        if units(name) > room:
            break
        room -= units(name)
        told.append(name)
    cut = len(told)
    for tier in (FINDINGS, FULL):  # the findings of all files come before the diff of any
        for index, view in enumerate(views[: len(told)]):
            if room < SMALL:
                break
            better = section(view, tier, outcome)
            more = units(better) - units(told[index])
            if more <= room:
                room -= more
                told[index] = better
                cut -= tier == FULL
    return top + note(cut, len(views) - len(told)) + "".join(told)


def note(cut: int, unnamed: int) -> str:
    """What a comment says that is not whole."""
    gone = f", and {plural(unnamed, 'file')} not named at all" if unnamed else ""
    said = f"A comment holds {LIMIT:,} characters: details of {plural(cut, 'file')} are left out here{gone}."
    return f"\n> [!NOTE]\n> {said} `distify rewrite --diff` or `--report report.html` shows everything.\n"


def section(view: View, tier: int, outcome: Outcome) -> str:
    """What is said of one file."""
    result = view.result
    title = f"<code>{html.escape(view.path)}</code>: {', '.join([outcome.told(view.state), *amount(result)])}"
    if tier == NAME:
        return f"\n- {title}\n"
    lines = [line for item in result.findings for line in on_finding(view, item)]
    if tier == FULL:
        lines += [line for block in blocks(view) for line in on_block(block)]
    inside = "\n".join(lines)
    return f"\n<details>\n<summary>{title}</summary>\n\n{inside}\n\n</details>\n"


def on_finding(view: View, item: Finding) -> Iterator[str]:
    """A finding as an item of a list."""
    line = view.placed(item.span).line
    yield f"- **{item.level}** [{item.code}]({rule_page(item.code)}), line {line}: {escaped(item.message)}"
    if item.hint:
        yield f"  *What to do:* {escaped(item.hint)}"


def on_block(block: Block) -> Iterator[str]:
    """A piece of the diff below its reasons."""
    yield ""
    for item in reasons(block.changes):
        yield f"- **{escaped(item.rule)}**, {item.lines}: {escaped(item.why)} ([{item.code or 'more'}]({item.url}))"
    lines = [block.header, *(f"{line.sign}{line.text}" for line in block.lines)]
    fence = "`" * max([2, *(len(run) for line in lines for run in re.findall("`+", line))]) + "`"
    yield from ["", f"{fence}diff", *lines, fence]


def escaped(text: str) -> str:
    """A text in one line that Markdown leaves alone, and that calls nobody: `@name`, `#1`."""
    return CALLING.sub("<!-- -->", SPECIAL.sub(r"\\\1", " ".join(text.split())))
