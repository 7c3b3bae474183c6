"""The pages of the documentation about codes: an index by family, and a page for each code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from ..codes import CODES
from . import Explained, explained, url
from .show import ALWAYS, REFUSED, SILENT, command, instead, of_check, remedy, suppression

LEVELS = {
    "error": "what can't be converted exactly; nothing is written, unless `--partial` is given",
    "warning": "what holds under an assumption, or is exact but no faster",
    "note": "what was done where it may surprise",
}


def pages() -> dict[str, str]:
    """All pages by their file names."""
    items = [explained(code) for code in sorted(CODES)]
    return {"index.md": index(items), **{f"{item.entry.code}.md": page(item) for item in items}}


def index(items: list[Explained]) -> str:
    """The list of all codes."""
    lines = ["# Rules", "", "What distify finds, by family. `distify explain DST101` shows a page on the terminal,"]
    lines += ["`distify rules` this list.", "", *(f"- **{level}**: {text}" for level, text in LEVELS.items()), ""]
    for name, group in groupby(items, lambda item: item.family):
        lines += [f"## {name.capitalize().replace('-', ' ')}", "", "| code | level | |", "|---|---|---|"]
        lines += [
            f"| [{item.entry.code}]({item.entry.code}.md) | {item.entry.level} | {item.entry.title} |" for item in group
        ]
        lines.append("")
    return "\n".join(lines)


def page(item: Explained) -> str:
    """The page of one code."""
    entry = item.entry
    text = [f"# {entry.code}: {entry.title}", f"*[{item.family}](index.md#{item.family}), {entry.level}*"]
    text += ["## What it finds", item.section("Finds").words, "## Why it matters", item.section("Why").words]
    if item.threads:
        text.append("\n".join(f"- [{thread}]({url(thread)})" for thread in item.threads))
    if item.example:
        text += example(item)
    if remedy(item):
        text += ["## What to do", remedy(item), fenced(instead(item), "diff")]
    comment, *everywhere = suppression(item).split("\n\n")
    shows = item.section("Report").block and entry.code not in ALWAYS
    text += ["## How to suppress it", comment, fenced(line_of(item), "python") if shows else "", *everywhere]
    return "\n\n".join(filter(None, text)) + "\n"


def example(item: Explained) -> Iterator[str]:
    """The example of a page, and what comes of it."""
    report, after = item.section("Report").block, item.section("After").block
    yield "## Example"
    yield fenced(item.example, "python")
    yield f"`{command(item)}` says:" if report else f"`{command(item)}` says nothing of it: {SILENT.split(': ')[1]}"
    yield fenced(report, "text")
    if of_check(item):
        yield "`--fix` writes:" if after else ""
        yield fenced(after, "diff")
        return
    yield "It writes:" if after else f"It writes nothing: {REFUSED.split(': ')[1]}".replace("--partial", "`--partial`")
    yield fenced(after, "diff")


def line_of(item: Explained) -> str:
    """The lines of the example with the comment that suppresses the finding."""
    lines = suppressed(item, numbers(item)).splitlines()
    return "\n".join(line.strip() for line in lines if f"ignore[{item.entry.code}]" in line) + "\n"


def numbers(item: Explained) -> set[int]:
    """The lines that the finding is reported on."""
    return {
        int(found)
        for found in re.findall(rf"^{re.escape(item.name)}:(\d+):", item.section("Report").block, re.MULTILINE)
    }


def fenced(block: str, language: str) -> str:
    """A block of code, "" for an empty one."""
    return f"```{language}\n{block}```" if block else ""


def suppressed(item: Explained, rows: set[int]) -> str:
    """The example with comments that take the findings on some lines back."""
    lines = item.example.splitlines()
    for row in rows:
        lines[row - 1] += f"  # distify: ignore[{item.entry.code}]"
    return "\n".join(lines) + "\n"
