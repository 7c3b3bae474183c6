"""Which codes are meant: those that somebody types, a family of them, a level."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ..codes import CODES, FAMILIES, LEVELS, Code, family
from ..options import nearest


class UnknownCode(ValueError):
    """A word that names no code; the message names the nearest one."""


def code_of(word: str) -> str:
    """The code that a word stands for: `DST101`, `dst101`, `101`.

    Raises:
        UnknownCode: there is none.
    """
    plain = word.strip().upper()
    name = plain if plain.startswith("DST") else f"DST{plain}"
    if name in CODES:
        return name
    corrected = name[:3] + name[3:].replace("O", "0").replace("I", "1").replace("L", "1")
    if not any(map(str.isdigit, word)):  # every code would be as near
        raise UnknownCode(f"unknown code '{word}': codes are like DST101 (distify rules lists all)")
    (close,) = difflib.get_close_matches(corrected, CODES, 1, 0.0)
    raise UnknownCode(f"unknown code '{word}', did you mean '{close}'? (distify rules lists all)")


def chosen(families: Iterable[str], levels: Iterable[str]) -> list[Code]:
    """The codes of some families and levels (all, where none are named), in order of their numbers.

    Raises:
        UnknownCode: a word is no family, or no level.
    """
    families, levels = list(families), list(levels)
    for words, valid, kind in ((families, list(FAMILIES.values()), "family"), (levels, LEVELS, "level")):
        for word in words:
            if word not in valid:
                raise UnknownCode(f"unknown {kind} '{word}', {nearest(word, valid)}")
    return [
        entry
        for code, entry in sorted(CODES.items())
        if (not families or family(code) in families) and (not levels or entry.level in levels)
    ]
