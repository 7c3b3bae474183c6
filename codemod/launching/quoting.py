"""Words of the user in files of others: whatever they hold, they stay one word and mean nothing."""

from __future__ import annotations

import shlex
from typing import Any

ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class Unquotable(ValueError):
    """A word that a file can't hold; the message says why."""


def shell(value: Any) -> str:
    """A word of a shell script.

    Raises:
        Unquotable: it holds a null character, which no command line can.
    """
    text = str(value)
    if "\0" in text:
        raise Unquotable(f"{text!r} holds a null character")
    return shlex.quote(text)


def yaml(value: Any) -> str:
    """A scalar of YAML: numbers as they are, text in double quotes, what isn't printable as escapes.

    Raises:
        Unquotable: it is no text (bytes of a file name that are no UTF-8).
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return '"' + "".join(map(character, str(value))) + '"'


def character(one: str) -> str:
    """One character in double quotes."""
    number = ord(one)
    if 0xD800 <= number < 0xE000 or number == 0:
        raise Unquotable(f"{one!r} is no character that a manifest can hold; rename the file")
    if one in ESCAPES:
        return ESCAPES[one]
    if one.isprintable() and number != 0xFEFF:
        return one
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def unexpanded(text: str) -> str:
    """A text in which Kubernetes sees no variable of its own, `$(NAME)`."""
    return text.replace("$", "$$")
