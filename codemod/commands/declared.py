"""Options that several verbs have: how each is declared, and which of them were given."""

from __future__ import annotations

from typing import Any

import typer

from ..options import CHOICES, flag
from .completing import words


def choice(name: str, text: str) -> Any:
    """An option of the conversion or the run with a fixed set of values."""
    return typer.Option(flag(name), metavar="|".join(CHOICES[name]), help=text, autocompletion=words(*CHOICES[name]))


def free(name: str, metavar: str, text: str, *others: str) -> Any:
    """An option with any value, which what uses it checks; `others` are further spellings of it."""
    return typer.Option(flag(name), *others, metavar=metavar, help=text)


def switch(name: str, text: str) -> Any:
    """An option that is on or off."""
    return typer.Option(flag(name), help=text)


def on(value: bool) -> str | None:
    """How a switch stands among options that are words."""
    return "true" if value else None


def given(**values: str | None) -> dict[str, str]:
    """Those that the command line gives, by name."""
    return {name: value for name, value in values.items() if value is not None}
