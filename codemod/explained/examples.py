"""What the codemod says and does about the examples, so that nobody writes it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .. import rules
from ..checking import check_source
from ..codes import OF_CHECK
from ..dataclass import dataclass
from ..facts import analyse
from ..findings import Finding
from ..fstrings import Text
from ..options import Options
from ..report.text import on_finding
from ..rewrite import Result, rewrite_source
from . import Explained
from .diffs import diff


@dataclass(frozen=True)
class Outcome:
    """What came of an example: the finding as it is printed (nothing, where the code only stands for a change), the
    change as a diff, and all findings."""

    report: str
    diff: str
    found: tuple[Finding, ...]


def outcome(item: Explained) -> Outcome:
    """Converts the example of a code.

    Raises:
        ValueError: it doesn't give the code.
    """
    before = item.example
    result = looked_at(item, before)
    mine = [found for found in result.findings if found.code == item.entry.code]
    if not mine and (item.entry.code in OF_CHECK or item.entry.code not in marks(item, before)):
        raise ValueError(f"{item.entry.code}: the example gives {[found.code for found in result.findings]}")
    text = Text(result.text)
    report = ["".join(piece for piece, _ in line) for found in mine for line in on_finding(item.name, found, text)]
    after = result.data.decode()
    return Outcome("".join(f"{line}\n" for line in report), diff(before, after), result.findings)


def looked_at(item: Explained, source: str) -> Result:
    """What the verb that knows the code makes of a source: the conversion, or the check."""
    if item.entry.code in OF_CHECK:
        return check_source(source.encode(), item.name)
    return converted(item, source)


def marks(item: Explained, source: str) -> set[str]:
    """The codes that changes bear, which no line of the report names."""
    edits, _ = rules.run(analyse(source, item.name), options(item.options))
    return {edit.code for edit in edits}


def converted(item: Explained, source: str) -> Result:
    """The conversion of a source under the options of the example."""
    return rewrite_source(source.encode(), item.name, options(item.options))


def options(words: Sequence[str]) -> Options:
    """Options of a conversion from words of the command line."""
    given = {word[2:].replace("-", "_"): value for word, value in zip(words[::2], words[1::2], strict=True)}
    return Options(**given)  # type: ignore[arg-type]  # Options turns text into numbers
