"""The formats of `--format`, each rendered whole; `text` is none of these: `report.text` writes that."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import cast

from ..rewrite import Result
from .names import FORMATS as FORMATS
from .outcome import Outcome

MODULES = {"json": "as_json", "github": "github", "sarif": "sarif", "markdown": "markdown"}


def render(
    name: str, results: Sequence[Result], verb: str, *, written: bool = False, failures: Sequence[str] = ()
) -> bytes:
    """The results of a verb in a format.

    Args:
        name: one of `FORMATS` but `text`.
        results: of all files, those that are left alone too.
        verb: `rewrite` or `check`.
        written: whether the files that were read hold the results by now (not so with `--diff`, `--check` or `-o`).
        failures: one line for each file that could not be read or analysed.
    """
    if name not in MODULES:
        raise ValueError(f"no such format: {name}")
    module = import_module(f".{MODULES[name]}", __package__)
    return cast(bytes, module.render(results, Outcome(verb, written, failures)))
