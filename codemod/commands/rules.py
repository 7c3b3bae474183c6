"""`distify rules`."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = """\b
Examples:
  distify rules                            all of them
  distify rules --family data --level error
  distify rules --format json              for programs
\b
Exit codes: 0 listed; 2 wrong option."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=EXAMPLES, short_help="List the codes of all findings, by family.")(rules)


def rules(
    families: Annotated[
        list[str] | None,
        typer.Option(
            "--family",
            metavar="FAMILY",
            help="Only these: data, optimizer, model, precision, evaluation, "
            "control-flow, checkpoint, output, backend.",
        ),
    ] = None,
    levels: Annotated[
        list[str] | None, typer.Option("--level", metavar="error|warning|note", help="Only these.")
    ] = None,
    format: Annotated[str, typer.Option("--format", metavar="text|json", help="How to write the list.")] = "text",
) -> None:
    """List the codes of all findings, by family. What one means: distify explain DST101."""
    from ..explained.find import UnknownCode, chosen
    from ..explained.listing import as_json, as_text
    from ..options import nearest
    from ..report.stream import complain, put, put_lines

    try:
        entries = chosen(families or (), levels or ())
        if format not in ("text", "json"):
            raise UnknownCode(f"unknown format '{format}', {nearest(format, ('text', 'json'))}")
    except UnknownCode as error:
        complain(str(error))
        raise typer.Exit(2) from None
    if format == "json":
        put(as_json(entries).encode())
    else:
        put_lines(as_text(entries))
