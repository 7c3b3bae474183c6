"""`distify doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from .completing import words

EXAMPLES = """\b
Examples:
  distify doctor                  what is here, and what is missing
  distify doctor --nproc 8        an all-reduce of 8 processes
  distify doctor --no-test        start one process only, to ask torch
  distify doctor --format json    for programs
\b
Exit codes: 0 a distributed run can start here; 1 something that it needs is
missing or fails; 2 wrong option."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=EXAMPLES)(doctor)


def doctor(
    form: Annotated[
        str,
        typer.Option("--format", metavar="text|json", help="text if not given.", autocompletion=words("text", "json")),
    ] = "text",
    nproc: Annotated[int, typer.Option("--nproc", metavar="N", min=2, max=64, help="Processes of the test.")] = 2,
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=1, help="Limit of the test.")] = 120,
    test: Annotated[bool, typer.Option("--test/--no-test", help="Whether to test an all-reduce.")] = True,
) -> None:
    """Say what a run needs and lacks on this machine."""
    from ..doctor.main import Request, examine

    raise typer.Exit(examine(Request(form, nproc if test else 1, timeout)))
