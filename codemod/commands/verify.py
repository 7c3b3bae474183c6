"""`distify verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import OptionError, Options, of_run
from .declared import choice, free, switch

EXAMPLES = """\b
Examples:
  distify verify train.py               would a conversion change the run?
  distify verify train.py --steps 50 -- --epochs 1   arguments of the script
  distify verify train.py --matrix --no-dropout      a table of all backends
  distify verify new.py --original train.py   a conversion made before
  distify verify train.py --html losses.html  both curves, their difference
\b
A script that is converted already is compared with its newest version in git
that is not.
\b
Exit codes: 0 equal up to rounding; 1 differs; 2 could not run: refused, no
torch, a script failed."""
AS_IN_REWRITE = "As in distify rewrite."


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=EXAMPLES, short_help="Run the original and the conversion, and compare them.")(verify)


def verify(
    context: typer.Context,
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="The training script, converted or not.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Of the script; after --.")] = None,
    nproc: Annotated[int, typer.Option("--nproc", metavar="N", min=1, help="Processes of the rewritten script.")] = 2,
    backend: Annotated[str | None, choice("backend", AS_IN_REWRITE)] = None,
    precision: Annotated[str | None, choice("precision", AS_IN_REWRITE)] = None,
    batch: Annotated[str | None, choice("batch", AS_IN_REWRITE)] = None,
    batchnorm: Annotated[str | None, choice("batchnorm", AS_IN_REWRITE)] = None,
    zero_stage: Annotated[str | None, free("zero_stage", "0|1|2|3", AS_IN_REWRITE)] = None,
    shard_size: Annotated[str | None, free("shard_size", "N", AS_IN_REWRITE)] = None,
    reshard: Annotated[str | None, choice("reshard", AS_IN_REWRITE)] = None,
    offload: Annotated[str | None, choice("offload", AS_IN_REWRITE)] = None,
    checkpoint_activations: Annotated[bool, switch("checkpoint_activations", AS_IN_REWRITE)] = False,
    meta_init: Annotated[bool, switch("meta_init", AS_IN_REWRITE)] = False,
    matrix: Annotated[bool, typer.Option("--matrix", help="Convert for each backend that is installed.")] = False,
    original: Annotated[
        str | None, typer.Option("--original", metavar="FILE", help="What SCRIPT, taken as it is, was made of.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", metavar="N", min=1, help="End both after N optimizer steps.")
    ] = None,
    no_dropout: Annotated[bool, typer.Option("--no-dropout", help="Switch dropout off in both.")] = False,
    twice: Annotated[bool, typer.Option("--twice", help="Run the original twice in any case.")] = False,
    device: Annotated[
        str, typer.Option("--device", metavar="auto|cpu|cuda", help="auto: GPUs if there are N of them.")
    ] = "auto",
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=1, help="Limit of each run.")] = 600.0,
    tolerance: Annotated[
        float | None, typer.Option("--tolerance", metavar="REL", min=0, help="Relative; else by precision.")
    ] = None,
    ignore: Annotated[
        str | None, typer.Option("--ignore", metavar="REGEX", help="Leave out lines of output that hold it.")
    ] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw the losses with matplotlib (.png).")
    ] = None,
    html: Annotated[str | None, typer.Option("--html", metavar="FILE", help="Write a page with the losses.")] = None,
    format: Annotated[str, typer.Option("--format", metavar="text|json", help="Of the result.")] = "text",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the scratch copies, outputs and traces.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the result alone.")] = False,
) -> None:
    """Prove a conversion: run the original on one process, the rewritten script on several, and compare.

    Both run in scratch copies of the project; nothing is written to the project itself. Compared are what they print,
    number by number, the loss of every backward, the gradients at every step, and the files that they save.
    """
    from ..verify.request import DEVICES, FORMATS, Request

    for name, value, valid in (("--device", device, DEVICES), ("--format", format, FORMATS)):
        if value not in valid:
            raise typer.BadParameter(f"{name}: unknown value '{value}' (valid: {', '.join(valid)})")
    if matrix and (backend is not None or original is not None):
        raise typer.BadParameter(f"--matrix tries every backend; leave {'--backend' if backend else '--original'} out")
    check_pattern(ignore)
    try:
        options = Options(**of_run(context.params))
    except OptionError as error:
        raise typer.BadParameter(str(error)) from None
    from ..verify.main import verify as run

    code = run(
        Request(
            script=script,
            arguments=arguments or [],
            options=options,
            original=original,
            processes=nproc,
            steps=steps,
            dropout=not no_dropout,
            limit=timeout,
            matrix=matrix,
            twice=twice,
            device=device,
            tolerance=tolerance,
            ignore=ignore,
            plot=plot,
            html=html,
            format=format,
            keep=keep,
            quiet=quiet,
        )
    )
    raise typer.Exit(code)


def check_pattern(pattern: str | None) -> None:
    """A regular expression is one, or it is a usage error."""
    import re

    try:
        re.compile(pattern or "")
    except re.error as error:
        raise typer.BadParameter(f"--ignore: no regular expression: {error}") from None
