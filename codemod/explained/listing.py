"""The list of all codes, for people and for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from ..codes import Code, family
from ..report.text import STYLES, Line
from . import explained, url
from .show import WIDTH

COLUMN = 18


def as_text(entries: Sequence[Code]) -> Iterator[Line]:
    """A line for each code under the name of its family."""
    for number, (name, group) in enumerate(groupby(entries, lambda entry: family(entry.code))):
        if number:
            yield [("", "")]
        yield [(name, "bold")]
        for entry in group:
            first, *rest = textwrap.wrap(entry.title, WIDTH - COLUMN, break_on_hyphens=False)
            yield [(f"  {entry.code}  ", ""), (f"{entry.level:8}", STYLES[entry.level]), (first, "")]
            yield from ([(" " * COLUMN + line, "")] for line in rest)


def as_json(entries: Sequence[Code]) -> str:
    """A list of objects: all that is said about each code."""
    return json.dumps([described(entry) for entry in entries], indent=2, ensure_ascii=False) + "\n"


def described(entry: Code) -> dict[str, object]:
    """A code as a mapping of JSON values."""
    item = explained(entry.code)
    return {
        "code": entry.code,
        "family": item.family,
        "level": entry.level,
        "title": entry.title,
        "why": entry.why,
        "remedy": entry.remedy,
        "finds": item.section("Finds").words,
        "matters": item.section("Why").words,
        "threads": [url(thread) for thread in item.threads],
    }
