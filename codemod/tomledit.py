"""Sets keys of `[tool.distify]` in the text of a pyproject.toml; every other byte stays as it is.

The text is cut into statements by a small scanner (a statement ends at a line end outside of strings and brackets),
lines are replaced, put in or taken out, and what comes out is parsed and compared with what was wanted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from .options import toml

HEADER = re.compile(r"""\s*\[\s*(["']?)tool\1\s*\.\s*(["']?)distify\2\s*\]""")
KEY = re.compile(r"""(?P<begin>\s*(?P<quote>["']?)(?P<key>[\w-]+)(?P=quote)\s*=\s*)""")
VALUE = re.compile(r"""("([^"\\\n]|\\.)*"|'[^'\n]*'|[^\s#"']+)""")


class Unwritable(ValueError):
    """A form of the table that can't be changed in place; the message says what to do."""


def with_values(text: str, values: Mapping[str, str | int | None]) -> str:
    """The text with some keys of the table set, or taken out where the value is `None`.

    Args:
        text: of a file that is valid TOML, or nothing.
        values: by the name of the option; a key that is there may be spelled with dashes.

    Raises:
        Unwritable: the table has a form that only people should change.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    pieces = [text[begin:stop] for begin, stop in statements(text)]
    header = next((k for k, piece in enumerate(pieces) if HEADER.match(piece)), None)
    left = dict(values)
    last = header
    for k in range(0 if header is None else header + 1, 0 if header is None else len(pieces)):
        if pieces[k].lstrip().startswith("["):
            break
        match = KEY.match(pieces[k])
        if match is not None:
            last = k
            name = match["key"].replace("-", "_")
            if name in left:
                pieces[k] = changed(pieces[k], match.end(), left.pop(name))
    lines = [f"{name} = {json.dumps(value)}{end}" for name, value in left.items() if value is not None]
    if lines and last is None:
        lines = [*([end] if text.strip() else []), f"[tool.distify]{end}", *lines]
        last = len(pieces) - 1
    if lines:
        if last is not None and last >= 0 and not pieces[last].endswith("\n"):
            pieces[last] += end
        pieces[(-1 if last is None else last) + 1 : 0 if last is None else last + 1] = lines
    result = "".join(pieces)
    check(text, result, values)
    return result


def changed(statement: str, at: int, value: str | int | None) -> str:
    """A statement with another value; its comment and its spaces stay."""
    if value is None:
        return ""
    match = VALUE.match(statement, at)
    if match is None or "\n" in statement.rstrip("\r\n"):
        raise Unwritable("a value of [tool.distify] has several lines")
    return statement[:at] + json.dumps(value) + statement[match.end() :]


def statements(text: str) -> Iterator[tuple[int, int]]:
    """Where each statement of a TOML text begins and ends, its line end included."""
    begin = at = depth = 0
    while at < len(text):
        one = text[at]
        if one == "#":
            at = (text.find("\n", at) + 1 or len(text) + 1) - 1
            continue
        if one in "\"'":
            at = end_of_string(text, at)
            continue
        depth += (one in "[{") - (one in "]}")
        at += 1
        if one == "\n" and depth == 0:
            yield begin, at
            begin = at
    if begin < len(text):
        yield begin, len(text)


def end_of_string(text: str, at: int) -> int:
    """Where a string ends that begins at a quote."""
    quote = text[at]
    mark = quote * 3 if text.startswith(quote * 3, at) else quote
    at += len(mark)
    while at < len(text) and not text.startswith(mark, at):
        at += 2 if text[at] == "\\" and quote == '"' else 1
    at += len(mark)
    while len(mark) == 3 and text.startswith(quote, at):  # one or two quotes before the mark belong to the string
        at += 1
    return at


def check(before: str, after: str, values: Mapping[str, str | int | None]) -> None:
    """Raises `Unwritable` unless the new text says what was wanted, and nothing else has changed."""
    wanted = toml(before)
    table = wanted.setdefault("tool", {}).setdefault("distify", {})
    for name, value in values.items():
        keys = [key for key in table if key.replace("-", "_") == name]
        for key in keys if value is None else keys[:-1]:
            del table[key]
        if value is not None:
            table[keys[-1] if keys else name] = value
    try:
        found = toml(after)
    except ValueError:
        found = {}
    found.setdefault("tool", {}).setdefault("distify", {})
    if found != wanted:
        lines = ", ".join(f"{name} = {json.dumps(value)}" for name, value in values.items() if value is not None)
        raise Unwritable(
            f"the options are written in a form that isn't changed by itself; write [tool.distify] as a table of its "
            f"own, with {lines or 'without ' + ', '.join(values)}"
        )
