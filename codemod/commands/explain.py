"""`distify explain`."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = """\b
Examples:
  distify explain DST101
  distify explain 203 307        two of them
\b
Exit codes: 0 told; 2 there is no such code."""


def codes_of(incomplete: str) -> list[str]:
    """Codes that begin so, for a shell."""
    from ..codes import CODES

    return [code for code in CODES if code.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=EXAMPLES, short_help="Say what a finding means, and what to do about it.")(explain)


def explain(
    codes: Annotated[
        list[str],
        typer.Argument(metavar="CODE", help="Of a finding, such as DST101 or 101.", autocompletion=codes_of),
    ],
) -> None:
    """Say what a finding means: what it finds, why it matters, an example, what to do, how to suppress it."""
    from ..explained import explained
    from ..explained.find import UnknownCode, code_of
    from ..explained.show import shown
    from ..report.stream import complain, put_lines

    try:
        items = [explained(code_of(word)) for word in codes]
    except UnknownCode as error:
        complain(str(error))
        raise typer.Exit(2) from None
    for number, item in enumerate(items):
        put_lines([*([[("", "")]] * 2 if number else []), *shown(item)])
