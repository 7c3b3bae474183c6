"""The command `distify`."""

from __future__ import annotations

from typing import Annotated

import typer

from .commands import check, config, consolidate, doctor, explain, launch, rules, verify
from .commands.completing import words
from .commands.declared import Jobs, StdinName, choice, free, switch
from .commands.verb import WIDTH, Verb
from .options import of_run
from .report.names import FORMATS
from .version import version

app = typer.Typer(
    name="distify",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
)

EXAMPLES = """\b
Examples:
  distify rewrite train.py              convert in place
  distify rewrite train.py --diff       only show what would change
  distify rewrite train.py --backend fsdp --precision bf16 --accumulate 4
  distify rewrite train.py -o new.py    keep the original
  distify rewrite src/ --check          exit 1 if something isn't converted
  distify rewrite train.py --diff --report diff.html   each change, its reason
  distify rewrite - < train.py          standard input to standard output
\b
Then start it, on two processes here:
  distify launch train.py --nproc 2
  torchrun --nproc-per-node 2 train.py
\b
What isn't given here is found when the script starts: DISTIFY_BACKEND (and so
on) in the environment, then [tool.distify] in pyproject.toml, then defaults:
ddp, fp32, accumulate 1, batch global, batchnorm exact, zero stage 2.
\b
Exit codes: 0 done or nothing to do; 1 would change (--check), or something
was refused; 2 usage error, unreadable input, or a mistake of distify."""


def show_version(value: bool) -> None:
    """Prints the version and stops."""
    if value:
        typer.echo(f"distify {version()}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
]


@app.callback(invoke_without_command=True)
def distify(context: typer.Context, version: Version = False) -> None:
    """Turn a single-process PyTorch training script into the distributed one: same run, more processes.

    The verbs stand in the order of use; distify VERB --help tells more, with examples.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


@app.command(epilog=EXAMPLES)
def rewrite(
    context: typer.Context,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Scripts, folders (all .py below), or - for standard input.")
    ],
    backend: Annotated[str | None, choice("backend", "How gradients are shared and parameters sharded.")] = None,
    precision: Annotated[str | None, choice("precision", "Autocast dtype; fp16 with loss scaling.")] = None,
    accumulate: Annotated[str | None, free("accumulate", "N", "Make one optimizer step of N loader batches.")] = None,
    batch: Annotated[
        str | None,
        choice("batch", "global: the processes share each batch; per-device: each has its own."),
    ] = None,
    batchnorm: Annotated[
        str | None, choice("batchnorm", "exact: statistics of the whole batch. local: of each slice.")
    ] = None,
    zero_stage: Annotated[str | None, free("zero_stage", "0|1|2|3", "What deepspeed shards.")] = None,
    shard_size: Annotated[
        str | None, free("shard_size", "N", "Processes that fsdp shards over; all otherwise.")
    ] = None,
    reshard: Annotated[str | None, choice("reshard", "When fsdp drops parameters that it gathered.")] = None,
    offload: Annotated[str | None, choice("offload", "Where fsdp keeps a process's parts.")] = None,
    checkpoint_activations: Annotated[
        bool, switch("checkpoint_activations", "Recompute activations of blocks.")
    ] = False,
    meta_init: Annotated[bool, switch("meta_init", "While it is built a model lies in files, not memory.")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="OUT", help="Write to this file or folder instead.")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Print a unified diff; write nothing.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if a file would change.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Convert the local modules that a script imports with it.")
    ] = True,
    partial: Annotated[bool, typer.Option("--partial", help="Convert the rest although something is refused.")] = False,
    budget: Annotated[
        str | None, free("budget", "SECONDS", "Refuse a program whose analysis takes longer; 120 if not given.")
    ] = None,
    jobs: Jobs = None,
    stdin_filename: StdinName = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="|".join(FORMATS),
            help="How results are told; all but text on stdout.",
            autocompletion=words(*FORMATS),
        ),
    ] = "text",
    page: Annotated[
        str | None,
        typer.Option("--report", metavar="FILE.html", help="Also write a page with the diff and its reasons."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also name files that are left alone.")] = False,
    version: Version = False,
) -> None:
    """Convert training scripts, in place unless told otherwise."""
    from .commands.asked import Usage, rewriting
    from .convert import convert

    try:
        request = rewriting(
            paths,
            **of_run(context.params),
            output=output,
            diff=diff,
            check=check,
            follow=follow,
            partial=partial,
            budget=budget,
            jobs=jobs,
            stdin_filename=stdin_filename,
            form=form,
            page=page,
            quiet=quiet,
            verbose=verbose,
        )
    except Usage as error:
        raise typer.BadParameter(str(error)) from None
    raise typer.Exit(convert(request))


# In the order of use, which is that of `distify --help`.
VERBS = (
    check,
    verify,
    launch,
    config,
    doctor,
    explain,
    rules,
    consolidate,
)
for verb in VERBS:
    verb.register(app)
for info in app.registered_commands:
    info.cls = Verb
