"""`distify consolidate`."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = """\b
Examples:
  distify consolidate states weights.pt                   the model alone
  distify consolidate states everything.pt --optimizer    the whole state
  distify consolidate states gan.pt --model generator     one of several
\b
Exit codes: 0 written; 2 it could not be."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=EXAMPLES, short_help="Turn a checkpoint in parts into one plain file.")(consolidate)


def consolidate(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A folder of runtime.save_state(), or a checkpoint.")],
    out: Annotated[str, typer.Argument(metavar="OUT", help="The file: .pt, .pth, .bin or .safetensors.")],
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Which model, where there are several.")
    ] = None,
    optimizer: Annotated[
        bool, typer.Option("--optimizer", help="Write a dict: the model's state, the optimizer's, and the rest.")
    ] = False,
) -> None:
    """Turn a checkpoint in parts into one plain file, which the original script loads. Needs torch, but no GPU."""
    from ..consolidate import consolidate as run

    chosen = [] if model is None else ["--model", model]
    raise typer.Exit(run([*chosen, *(["--optimizer"] if optimizer else []), "--", folder, out]))
