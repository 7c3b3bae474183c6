"""An explanation on the terminal: 80 columns, headings in words, colour only where somebody looks."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from ..codes import OF_CHECK
from ..report.text import STYLES, Line
from . import Explained, sentence, url
from .diffs import diff

WIDTH = 80
INDENT = "    "
PLAIN: Mapping[str, str] = MappingProxyType({})
DIFF: Mapping[str, str] = MappingProxyType({"+": "green", "-": "red"})
SILENT = "Nothing: the code stands for a change, and reports name it there."
REFUSED = "Nothing: it is refused. With --partial, the rest of the file."
ALWAYS = MappingProxyType(
    {
        "DST900": "Remove the comment, or correct the code that it names.",
        "DST902": "It can't be suppressed: the file is left as it is.",
        "DST905": "It can't be suppressed: raise the budget.",
    }
)
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def shown(item: Explained) -> Iterator[Line]:
    """The lines of an explanation."""
    entry = item.entry
    yield [(entry.code, "bold"), (f" ({item.family}, ", ""), (entry.level, STYLES[entry.level]), (")", "")]
    yield from prose(sentence(entry.title), "")
    yield from part("What it finds", item.section("Finds").words)
    yield from part("Why it matters", item.section("Why").words)
    for thread in item.threads:
        yield [(f"{INDENT}{url(thread)}", "")]
    if item.example:
        yield from part(f"Example, for {command(item)}", "")
        yield from code(item.example)
        yield from part("What distify says", "" if item.section("Report").block else SILENT)
        yield from report(item.section("Report").block)
        after = item.section("After").block
        if after or not of_check(item):
            yield from part(f"What {'--fix' if of_check(item) else 'it'} writes", "" if after else REFUSED)
            yield from code(after, DIFF)
    if remedy(item):
        yield from part("What to do", remedy(item))
        yield from ([[("", "")], *code(instead(item), DIFF)] if instead(item) else [])
    yield from part("How to suppress it", suppression(item))


def remedy(item: Explained) -> str:
    """What to do, in words; "" where nothing is to be done."""
    return item.section("Instead").words or sentence(item.entry.remedy)


def instead(item: Explained) -> str:
    """What to change in the example, as a diff."""
    return diff(item.example, item.section("Instead").block) if item.section("Instead").block else ""


def suppression(item: Explained) -> str:
    """How to suppress a code, in words."""
    code = item.entry.code
    if code in ALWAYS:
        return ALWAYS[code]
    if item.example and not item.section("Report").block:
        return "Nothing is said, so there is nothing to suppress."
    comment = f"Write `# distify: ignore[{code}]` at the end of the line."
    if of_check(item):
        effect = " `--fix` then leaves it as it is." if item.section("After").block else ""
    elif item.entry.level == "error":
        effect = " The place is then left as it is and the rest converted; you answer for it."
    else:
        effect = " The conversion is the same."
    everywhere = f'`ignore = ["{code}"]` below `[tool.distify.check]` leaves it out of what `distify check` reports.'
    return f"{comment}{effect}\n\n{everywhere}"


def of_check(item: Explained) -> bool:
    """Whether only `distify check` reports a code."""
    return item.entry.code in OF_CHECK


def part(title: str, words: str) -> Iterator[Line]:
    """A heading and the words below it."""
    yield [("", "")]
    yield [(title, "bold")]
    yield from prose(words, INDENT)


def prose(words: str, indent: str) -> Iterator[Line]:
    """Paragraphs of Markdown as lines of text; links keep their words."""
    for number, paragraph in enumerate(filter(None, LINK.sub(r"\1", words).split("\n\n"))):
        if number:
            yield [("", "")]
        for line in textwrap.wrap(paragraph, WIDTH - len(indent), break_long_words=False, break_on_hyphens=False):
            yield [(indent + line, "")]


def report(text: str) -> Iterator[Line]:
    """Lines that distify prints, wrapped like words."""
    for line in text.splitlines():
        deeper = INDENT + line[: len(line) - len(line.lstrip())]
        yield from ([(piece, "")] for piece in textwrap.wrap(
            line.strip(), WIDTH, initial_indent=deeper, subsequent_indent=f"{deeper}  ",
            break_long_words=False, break_on_hyphens=False,
        ))  # fmt: skip


def code(block: str, styles: Mapping[str, str] = PLAIN) -> Iterator[Line]:
    """A block of code, indented."""
    for line in block.splitlines():
        yield [(f"{INDENT}{line}".rstrip(), styles.get(line[:1], ""))]


def command(item: Explained) -> str:
    """The command that the example is converted with, or checked."""
    return shlex.join(["distify", "check" if of_check(item) else "rewrite", item.name, *item.options])
