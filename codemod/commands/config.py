"""`distify config`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..options import of_run
from .declared import choice, free, switch

EXAMPLES = """\b
Examples:
  distify config                                   ask, show, write
  distify config --backend fsdp --precision bf16   ask nothing
  distify config --accumulate 4 --dry-run          only show the change
  distify config path/to/project --backend ddp
\b
It writes [tool.distify] into the nearest pyproject.toml at or above the
folder, where a run looks too; all else in that file stays as it is. What a
script writes into runtime.init(...), and DISTIFY_BACKEND and so on in the
environment, win over it.
\b
Exit codes: 0 written, or nothing to change; 2 for a wrong option, or a file
that can't be read or written."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=EXAMPLES)(config)


def config(
    context: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Of the project.", show_default=False)] = ".",
    backend: Annotated[str | None, choice("backend", "How work is shared.")] = None,
    precision: Annotated[str | None, choice("precision", "Autocast dtype.")] = None,
    accumulate: Annotated[str | None, free("accumulate", "N", "Batches per optimizer step.")] = None,
    batch: Annotated[str | None, choice("batch", "Share each batch, or one each.")] = None,
    batchnorm: Annotated[str | None, choice("batchnorm", "Statistics of the batch, or a slice.")] = None,
    zero_stage: Annotated[str | None, free("zero_stage", "0|1|2|3", "What deepspeed shards.")] = None,
    shard_size: Annotated[str | None, free("shard_size", "N", "Processes that fsdp shards over.")] = None,
    reshard: Annotated[str | None, choice("reshard", "When gathered parameters go.")] = None,
    offload: Annotated[str | None, choice("offload", "Where parts of a model lie.")] = None,
    checkpoint_activations: Annotated[bool, switch("checkpoint_activations", "Recompute activations.")] = False,
    meta_init: Annotated[bool, switch("meta_init", "Build models in parts.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking whether to.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; write nothing.")] = False,
) -> None:
    """Write the options of a project into pyproject.toml."""
    from ..configuring import Request, configured

    options = of_run(context.params)
    asks = not options and not yes and on_terminal()

    def ask(question: str, default: str) -> str:
        return str(typer.prompt(question, default=default, err=True))

    def sure(question: str) -> bool:
        return bool(typer.confirm(question, default=True, err=True))

    request = Request(folder, options, ask if asks else None, sure if asks and not dry_run else None, dry_run)
    raise typer.Exit(configured(request))


def on_terminal() -> bool:
    """Whether somebody is there to answer."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
