"""Which findings are wanted: `select`, `ignore` and `per-file-ignores`, given or from `[tool.distify.check]`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from .codes import CODES, similar
from .dataclass import dataclass, field
from .findings import Finding
from .options import OptionError, nearest, tool_table

ALL = "ALL"
TABLE = "[tool.distify.check]"
KEYS = ("select", "ignore", "per-file-ignores")


@dataclass(frozen=True)
class Selection:
    """Which codes count; codes may be beginnings (`DST1` is all of data), and the longest that fits decides.

    Attributes:
        select: what is reported, everything if empty.
        ignore: what is not.
        per_file: for files that match a pattern, what is not.
        base: the folder that patterns are relative to.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file: tuple[tuple[str, tuple[str, ...]], ...] = ()
    base: str = ""

    def wants(self, code: str, path: str) -> bool:
        """Whether findings of a code in a file are reported."""
        ignored = [
            *self.ignore,
            *(item for pattern, codes in self.per_file if self._fits(path, pattern) for item in codes),
        ]
        wanted = max((length(item) for item in self.select or (ALL,) if fits(code, item)), default=-1)
        return wanted > max((length(item) for item in ignored if fits(code, item)), default=-1)

    def of(self, findings: Iterable[Finding], path: str) -> list[Finding]:
        """Those findings in a file that are reported."""
        return [item for item in findings if self.wants(item.code, path)]

    def _fits(self, path: str, pattern: str) -> bool:
        """Whether a pattern is a file's name, its path below the base, or a folder that it is in."""
        whole = os.path.abspath(path)
        below = os.path.relpath(whole, self.base or os.getcwd()).replace(os.sep, "/")
        names = (below, os.path.basename(whole), whole.replace(os.sep, "/"))
        return any(fnmatch(name, shape) for name in names for shape in (pattern, f"{pattern.rstrip('/')}/*"))


def length(item: str) -> int:
    """How much a selector says."""
    return 0 if item == ALL else len(item)


def fits(code: str, item: str) -> bool:
    """Whether a selector means a code."""
    return item == ALL or code.startswith(item)


def parse_codes(given: Any, source: str) -> tuple[str, ...]:
    """Checked selectors.

    Args:
        given: texts with commas, as they are written on the command line, or a list of TOML.
        source: how the user wrote the option, for the message.

    Raises:
        OptionError: one that is no beginning of a code.
    """
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, (list, tuple)) or not all(isinstance(item, str) for item in given):
        raise OptionError(f"{source}: a list of codes is due, such as ['DST101', 'DST2']")
    names = [name.strip() for item in given for name in item.split(",") if name.strip()]
    for name in names:
        if name != ALL and not (name.startswith("DST") and any(code.startswith(name) for code in CODES)):
            raise OptionError(f"{source}: unknown code '{name}', {similar(name)}")
    return tuple(names)


def parse_per_file(given: Any, source: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Checked patterns, each with its codes: `tests/*:DST101` of the command line, or a table of TOML.

    Raises:
        OptionError: no pattern, or an unknown code.
    """
    if isinstance(given, Mapping):
        return tuple((str(name), parse_codes(codes, f"{source} '{name}'")) for name, codes in given.items())
    if not isinstance(given, (list, tuple)):
        raise OptionError(f"{source}: a table of patterns with lists of codes is due")
    found = []
    for item in given:
        pattern, colon, codes = str(item).rpartition(":")
        if not colon or not pattern or not codes.strip():
            raise OptionError(f"{source}: '{item}' is not PATTERN:CODES, such as 'tests/*:DST101,DST203'")
        found.append((pattern.strip(), parse_codes(codes, source)))
    return tuple(found)


@dataclass
class Selections:
    """What holds for a file: what the command line gave, else what the nearest pyproject.toml says.

    Attributes:
        select, ignore, per_file: of the command line, `None` where it says nothing.
    """

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    per_file: tuple[tuple[str, tuple[str, ...]], ...] | None = None
    _known: dict[str, Selection] = field(default_factory=dict)

    @classmethod
    def given(
        cls, select: Sequence[str] | None, ignore: Sequence[str] | None, per_file: Sequence[str] | None
    ) -> Selections:
        """From the texts of the command line.

        Raises:
            OptionError: an unknown code.
        """
        return cls(
            parse_codes(select, "--select") if select else None,
            parse_codes(ignore, "--ignore") if ignore else None,
            parse_per_file(per_file, "--per-file-ignores") if per_file else None,
        )

    def at(self, path: str) -> Selection:
        """What holds for a file.

        Raises:
            OptionError: an unknown key or code in its pyproject.toml, or one that can't be read.
        """
        folder = os.path.dirname(os.path.abspath(path))
        if folder not in self._known:
            self._known[folder] = self._read(folder)
        return self._known[folder]

    def _read(self, folder: str) -> Selection:
        file, table = tool_table(Path(folder))
        own = table.get("check", {})
        if not isinstance(own, Mapping):
            raise OptionError(f"{file}: {TABLE} must be a table")
        values = {str(key).replace("_", "-"): value for key, value in own.items()}
        for key in own:
            if str(key).replace("_", "-") not in KEYS:
                raise OptionError(f"{file}: {TABLE}: unknown key '{key}', {nearest(str(key), KEYS)}")
        where = f"{file}: {TABLE}"
        select = parse_codes(values.get("select", []), f"{where} select")
        ignore = parse_codes(values.get("ignore", []), f"{where} ignore")
        per_file = parse_per_file(values.get("per-file-ignores", {}), f"{where} per-file-ignores")
        base = str(file.parent) if file is not None and self.per_file is None else ""
        return Selection(
            select if self.select is None else self.select,
            ignore if self.ignore is None else self.ignore,
            per_file if self.per_file is None else self.per_file,
            base,
        )
