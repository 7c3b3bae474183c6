"""Options that several verbs have: how each is declared, and which of them were given."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..options import CHOICES, flag
from .completing import words

Jobs = Annotated[
    str | None,
    typer.Option("--jobs", "-j", metavar="N|auto", help="Processes; auto: one per core, if that is faster."),
]
StdinName = Annotated[
    str | None, typer.Option("--stdin-filename", metavar="NAME", help="What to call standard input (-).")
]


def choice(name: str, text: str) -> Any:
    """An option of the conversion or the run with a fixed set of values."""
    return typer.Option(flag(name), metavar="|".join(CHOICES[name]), help=text, autocompletion=words(*CHOICES[name]))


def free(name: str, metavar: str, text: str, *others: str) -> Any:
    """An option with any value, which what uses it checks; `others` are further spellings of it."""
    return typer.Option(flag(name), *others, metavar=metavar, help=text)


def switch(name: str, text: str) -> Any:
    """An option that is on or off."""
    return typer.Option(flag(name), help=text)


def given(**values: str | None) -> dict[str, str]:
    """Those that the command line gives, by name."""
    return {name: value for name, value in values.items() if value is not None}
