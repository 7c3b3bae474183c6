"""Hunks with a few lines around them, as diffs show them: those that would touch are one block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..changes import Change, Range, ranges
from ..dataclass import dataclass
from ..links import change_page
from .views import Shown, View

CONTEXT = 3  # lines around a block
APART = 3  # unchanged lines that part two blocks


@dataclass(frozen=True)
class Line:
    """A line of a diff: " " as it was, "-" gone, "+" new; its numbers in both texts, and its text without its end."""

    sign: str
    old: int | None
    new: int | None
    text: str


@dataclass(frozen=True)
class Block:
    """Hunks that are shown together, and the reasons for all of them."""

    start: tuple[int, int]
    lines: tuple[Line, ...]
    changes: tuple[Change, ...]

    @property
    def header(self) -> str:
        """`@@ -12,7 +14,9 @@`."""
        old = sum(line.sign != "+" for line in self.lines)
        new = sum(line.sign != "-" for line in self.lines)
        return f"@@ -{numbered(self.start[0], old)} +{numbered(self.start[1], new)} @@"


def numbered(start: int, count: int) -> str:
    """A range of a diff's header: an empty one names the line above it."""
    first = start + 1 if count else start
    return f"{first}" if count == 1 else f"{first},{count}"


def blocks(view: View) -> Iterator[Block]:
    """The blocks of a file: hunks with fewer than `APART` lines between them are one."""
    groups: list[list[Shown]] = []
    for shown in view.hunks:
        if groups and shown.hunk.old - groups[-1][-1].hunk.old_end < APART:
            groups[-1].append(shown)
        else:
            groups.append([shown])
    start = 0  # what the block above has shown is not shown again
    for group, following in zip(groups, [*groups[1:], None]):
        last = group[-1].hunk.old_end
        room = len(view.old) - last if following is None else following[0].hunk.old - last
        end = last + min(CONTEXT, room if following is None else room // 2)
        yield block(view, group, max(start, group[0].hunk.old - CONTEXT), end)
        start = end


def block(view: View, group: Sequence[Shown], start: int, end: int) -> Block:
    """Some hunks with the lines around them: `[start, end)` of the text before."""
    at, new = start, group[0].hunk.new - (group[0].hunk.old - start)
    top = (at, new)
    lines: list[Line] = []
    for shown in group:
        hunk = shown.hunk
        lines += unchanged(view, at, hunk.old, new)
        lines += [Line("-", row + 1, None, bare(view.old[row])) for row in range(hunk.old, hunk.old_end)]
        lines += [Line("+", None, row + 1, bare(view.new[row])) for row in range(hunk.new, hunk.new_end)]
        at, new = hunk.old_end, hunk.new_end
    lines += unchanged(view, at, end, new)
    changes = tuple(dict.fromkeys(item for shown in group for item in shown.changes))
    return Block(top, tuple(lines), changes)


def unchanged(view: View, start: int, end: int, new: int) -> list[Line]:
    """Lines that are in both texts."""
    return [Line(" ", row + 1, new + row - start + 1, bare(view.old[row])) for row in range(start, end)]


def bare(line: str) -> str:
    """A line without its end."""
    return line.rstrip("\r\n")


@dataclass(frozen=True)
class Reason:
    """Changes that one rule makes for one reason.

    Attributes:
        rule: the rule, and the kind of its changes where that has another name.
        why: the reason.
        code: of the page that tells about it, "" for none.
        url: where to read on.
        lines: what is to be said of where: "line 3", "lines 3-5, 9", "former line 7".
        places: lines of the new text, from and to; none where something only went away.
    """

    rule: str
    why: str
    code: str
    url: str
    lines: str
    places: tuple[Range, ...]


def reasons(changes: Sequence[Change]) -> list[Reason]:
    """Why some changes are made, in their order, each reason once."""
    found: dict[tuple[str, str, str, str], list[Change]] = {}
    for item in changes:
        found.setdefault((item.rule, item.kind, item.code, item.reason), []).append(item)
    return [
        Reason(
            rule if kind in (rule, "") else f"{rule} ({kind})",
            why,
            code,
            change_page(code, kind),
            lines_told(items),
            ranges({line for item in items for line in item.lines}),
        )
        for (rule, kind, code, why), items in found.items()
    ]


def lines_told(changes: Sequence[Change]) -> str:
    """Where changes are: lines of the new text, else those of the old one that are gone."""
    new = {line for item in changes for line in item.lines}
    lines = new or {line for item in changes for line in range(item.before.line, item.before.end_line + 1)}
    told = ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges(lines))
    return f"{'' if new else 'former '}line{'s' if len(lines) > 1 else ''} {told}"
