"""`distify explain`."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(explain)


def explain(
    codes: Annotated[list[str], typer.Argument(metavar="CODE", help="Codes of findings, such as DST101 or 101.")],
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
