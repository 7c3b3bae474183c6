"""The work of `distify launch`: resolve, show, then start or write a job file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..dataclass import dataclass, field
from ..files import FileError
from ..options import OptionError, flag, nearest
from ..report.stream import complain, put
from ..source import SourceError
from ..writing import Replacement, write_all
from . import machine
from .emit import FORMATS, Job, check, job_file
from .processes import Processes, processes
from .script import Script, look_at, module_file
from .settings import Setting, settings
from .start import Run, show, start

FAILED = 2


@dataclass(frozen=True)
class Request:
    """What the command line asks for.

    Attributes:
        script: a path, or a dotted name with `module`.
        arguments: of the script.
        options, counts: flags that were given, of the run and of its processes.
        as_is: start a script that distify did not convert.
        dry, quiet: say what would be done; don't show what holds.
        emit, output, job: the job file that is written instead.
    """

    script: str
    arguments: tuple[str, ...] = ()
    module: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, str] = field(default_factory=dict)
    as_is: bool = False
    dry: bool = False
    emit: str | None = None
    output: str | None = None
    job: Job = field(default_factory=Job)
    quiet: bool = False


def launched(request: Request, environment: Mapping[str, str]) -> int:
    """Starts a run and returns its exit code, or writes a job file; what is wrong is one line and code 2."""
    try:
        run = resolve(request, environment)
        if request.emit is None:
            show(run, environment, request.dry, request.quiet)
            return 0 if request.dry else start(run, environment)
        data = job_file(request.emit, run, request.job, environment)
        if request.output in (None, "-"):
            put(data)
        else:
            write_job(str(request.output), data, look_for(request))
        return 0
    except (OptionError, FileError, SourceError) as error:
        complain(str(error))
        return FAILED


def resolve(request: Request, environment: Mapping[str, str]) -> Run:
    """The run that is asked for.

    Raises:
        OptionError, FileError, SourceError: what is wrong with it.
    """
    check_job(request)
    path = look_for(request)
    script = look_at(path)
    target = ("-m", request.script) if request.module else (f"./{path}" if path.startswith("-") else path,)
    count = processes(request.counts, environment, request.emit is not None)
    check_converted(request, script, count)
    several = machine.several_tasks(environment) if request.emit is None and count.alone else ""
    if several:
        raise OptionError(
            f"{several}: this command runs several times at once, and each would train alone. Give --nnodes, "
            "--node-rank and --rdzv-endpoint, or let distify write the job: --emit slurm"
        )
    found = tuple(settings(script, request.options, environment)) if script.starts else ()
    check_groups(found, count)
    return Run(target, request.arguments, count, found)


def check_groups(found: Sequence[Setting], count: Processes) -> None:
    """Refuse groups of processes that don't come out even, before any process starts."""
    size = next((item for item in found if item.name == "shard_size" and item.value is not None), None)
    if size is not None and count.nproc.isdigit() and count.nnodes.isdigit():
        total = int(count.nproc) * int(count.nnodes)
        if total % int(str(size.value)):
            raise OptionError(
                f"{size.source}: {total} processes can't be divided into groups of {size.value}, which each hold all "
                "of a model. Take the number of processes of one machine, or another that divides them"
            )


def look_for(request: Request) -> str:
    """The file that is run."""
    return module_file(request.script) if request.module else request.script


def check_job(request: Request) -> None:
    """Options of a job file, with it only."""
    if request.emit is None:
        if request.output is not None:
            raise OptionError("-o goes with --emit")
        check("", request.job)
        return
    if request.emit not in FORMATS:
        raise OptionError(f"--emit: unknown value '{request.emit}', {nearest(request.emit, FORMATS)}")
    if request.dry:
        raise OptionError("--emit starts nothing; leave --dry-run out")
    for name in ("node_rank", "rdzv_endpoint", "rdzv_backend", "rdzv_id"):
        if name in request.counts:
            raise OptionError(f"{flag(name)}: the job file finds that out on its machines; leave it out")
    if ":" in request.counts.get("nnodes", ""):
        raise OptionError("--nnodes: a job file has a fixed number of machines")
    check(request.emit, request.job)


def check_converted(request: Request, script: Script, count: Processes) -> None:
    """A plain script on several processes would be trained several times, each writing over the others' files."""
    if script.starts:
        return
    if request.options:
        name = next(iter(request.options))
        raise OptionError(f"{flag(name)}: {script.path} doesn't call runtime.init(), so nothing would read it")
    if not (request.as_is or script.by_hand or (count.alone and count.nproc == "1")):
        raise OptionError(
            f"{script.path} is not distributed: each process would train alone and write the same files. Convert it "
            f"first: distify rewrite {script.path}; or start it all the same, with --as-is"
        )


def write_job(path: str, data: bytes, script: str) -> None:
    """Write a job file, never over the script.

    Raises:
        FileError: it can't be written.
    """
    if os.path.realpath(path) == os.path.realpath(script):
        raise FileError(f"{path}: is the script itself; give another name with -o")
    write_all([Replacement(path, data)])
