"""`distify launch`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ..options import of_run
from .completing import words
from .declared import choice, free, given, switch

EXAMPLES = """\b
Examples:
  distify launch train.py                   one process per GPU, 2 without
  distify launch train.py --nproc 4 -- --lr 0.1    arguments of the script
  distify launch -m package.train --dry-run        only say what would be run
  distify launch train.py --backend fsdp --precision bf16
\b
On two machines (each with its own --node-rank):
  distify launch train.py --nnodes 2 --node-rank 0 --rdzv-endpoint host0
\b
A job file for a scheduler:
  distify launch train.py --emit slurm --nnodes 2 --nproc 8 --time 12:00:00
  distify launch train.py --emit kubernetes --nproc 8 --image org/train:1
\b
Options of the run that the script writes into runtime.init(...) win over
flags; flags win over DISTIFY_BACKEND and so on, these over [tool.distify] in
pyproject.toml. What holds, and where it came from, is shown at the start.
\b
Exit codes: 0 all went well; that of the process that failed first (128 and
its number, if a signal ended it); 2 a wrong option or an unreadable file."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=EXAMPLES)(launch)


def launch(
    context: typer.Context,
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A converted script, or a module with -m.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Of the script; after --.")] = None,
    module: Annotated[bool, typer.Option("--module", "-m", help="SCRIPT is a dotted name, as of python -m.")] = False,
    backend: Annotated[str | None, choice("backend", "How gradients are shared, parameters sharded.")] = None,
    precision: Annotated[str | None, choice("precision", "Autocast dtype.")] = None,
    accumulate: Annotated[str | None, free("accumulate", "N", "Batches per optimizer step.")] = None,
    batch: Annotated[str | None, choice("batch", "Share each batch, or one for each.")] = None,
    batchnorm: Annotated[str | None, choice("batchnorm", "Statistics of the whole batch, or of a slice.")] = None,
    zero_stage: Annotated[str | None, free("zero_stage", "0|1|2|3", "What deepspeed shards.")] = None,
    shard_size: Annotated[str | None, free("shard_size", "N", "Processes that fsdp shards over.")] = None,
    reshard: Annotated[str | None, choice("reshard", "When gathered parameters go.")] = None,
    offload: Annotated[str | None, choice("offload", "Where parts of a model lie.")] = None,
    checkpoint_activations: Annotated[bool, switch("checkpoint_activations", "Recompute activations.")] = False,
    meta_init: Annotated[bool, switch("meta_init", "Build models in parts.")] = False,
    nproc: Annotated[
        str | None, free("nproc", "N|gpu|cpu", "Processes on each machine; one per GPU.", "--nproc-per-node")
    ] = None,
    nnodes: Annotated[str | None, free("nnodes", "N", "Machines, or FEWEST:MOST; 1 if not given.")] = None,
    node_rank: Annotated[str | None, free("node_rank", "N", "Which of them this one is, from 0.")] = None,
    rdzv_endpoint: Annotated[
        str | None, free("rdzv_endpoint", "HOST[:PORT]", "Where they meet: the machine of rank 0.", "--master-addr")
    ] = None,
    rdzv_backend: Annotated[
        str | None,
        typer.Option(
            "--rdzv-backend",
            metavar="static|c10d",
            help="How they meet; static with --node-rank, else c10d.",
            autocompletion=words("static", "c10d", "etcd-v2"),
        ),
    ] = None,
    rdzv_id: Annotated[str | None, free("rdzv_id", "ID", "What this run is called there.")] = None,
    max_restarts: Annotated[str | None, free("max_restarts", "N", "Start anew after a failure; 0 times.")] = None,
    as_is: Annotated[bool, typer.Option("--as-is", help="Start a script that distify did not convert.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the command; start nothing.")] = False,
    emit: Annotated[
        str | None,
        typer.Option(
            "--emit",
            metavar="FORMAT",
            help="Print a job file: torchrun, slurm or kubernetes.",
            autocompletion=words("torchrun", "slurm", "kubernetes"),
        ),
    ] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="OUT", help="Write it here instead.")] = None,
    name: Annotated[str | None, free("name", "NAME", "Of the job; the script's if not given.")] = None,
    gpus: Annotated[str | None, free("gpus", "N", "Of each machine in the job; as --nproc.")] = None,
    cpus: Annotated[str | None, free("cpus", "N", "Of each machine in the job.")] = None,
    memory: Annotated[str | None, free("memory", "SIZE", "Of each machine in the job, such as 64G.")] = None,
    time: Annotated[str | None, free("time", "HH:MM:SS", "Limit of a slurm job.")] = None,
    partition: Annotated[str | None, free("partition", "NAME", "Of a slurm job.")] = None,
    account: Annotated[str | None, free("account", "NAME", "Of a slurm job.")] = None,
    image: Annotated[str | None, free("image", "NAME", "Of a kubernetes job.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Don't show what was resolved.")] = False,
) -> None:
    """Start a converted script on several processes or machines."""
    from ..launching.emit import Job
    from ..launching.request import Request, launched

    request = Request(
        script=script,
        arguments=tuple(arguments or ()),
        module=module,
        options=of_run(context.params),
        counts=given(
            nproc=nproc,
            nnodes=nnodes,
            node_rank=node_rank,
            rdzv_endpoint=rdzv_endpoint,
            rdzv_backend=rdzv_backend,
            rdzv_id=rdzv_id,
            max_restarts=max_restarts,
        ),
        as_is=as_is,
        dry=dry_run,
        emit=emit,
        output=output,
        job=Job(name, gpus, cpus, memory, time, partition, account, image),
        quiet=quiet,
    )
    raise typer.Exit(launched(request, os.environ))
