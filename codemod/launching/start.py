"""Starts a run, and shows what it was resolved to."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..dataclass import dataclass
from ..files import reason
from ..options import variable
from ..report.stream import complain, put, say
from ..spawned import unlaunched
from . import machine
from .processes import Processes
from .settings import FLAG, Setting

if TYPE_CHECKING:
    from ..report.text import Line

NO_TORCH = (
    "torch is not installed beside distify, and there is no torchrun on the path: pip install 'torch-distify[torch]', "
    "or activate the environment that the script runs in"
)


@dataclass(frozen=True)
class Run:
    """A run that is to be started.

    Attributes:
        target: the words that name what is run: a script, or `-m` and a module.
        arguments: of the script.
        processes: how many, where.
        settings: the options of the run; empty for a script that distify didn't convert.
    """

    target: tuple[str, ...]
    arguments: tuple[str, ...]
    processes: Processes
    settings: tuple[Setting, ...] = ()

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What is set in the environment of the processes.

        Equal string hashes spare each process a restart. One thread each is what torchrun sets, with a warning.
        """
        found = {variable(item.name): str(item.value) for item in self.settings if item.level == FLAG}
        if environment.get("PYTHONHASHSEED", "random") == "random":
            found["PYTHONHASHSEED"] = "0"
        if self.processes.nproc != "1" and not environment.get("OMP_NUM_THREADS"):
            found["OMP_NUM_THREADS"] = "1"
        return found

    def words(self) -> list[str]:
        """The command line of torchrun, without its name."""
        return [*self.processes.words(), *self.target, *self.arguments]


def command_line(run: Run, environment: Mapping[str, str]) -> str:
    """What one may type instead."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in run.variables(environment).items()]
    return " ".join([*variables, "torchrun", *map(shlex.quote, run.words())])


def table(run: Run) -> Iterator[Line]:
    """Each option with its value and where it came from."""
    rows = [(item.name, "-" if item.value is None else str(item.value), item.source) for item in run.settings]
    rows += [(name, found.value, found.source) for name, found in run.processes.shown]
    names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
    for name, value, source in rows:
        yield [(f"  {name:{names}}  ", ""), (f"{value:{values}}  ", "bold"), (source, "dim")]


def start(run: Run, environment: Mapping[str, str]) -> int:
    """Replace this process by the one that starts the others: signals reach it, and its exit status is that of the run.

    Returns:
        An exit status, where a process can't be replaced or nothing could be started.
    """
    starter = machine.starter()
    if starter is None:
        complain(NO_TORCH)
        return 2
    host = run.processes.endpoint.rpartition(":")[0]
    if host and not machine.has_address(host):
        complain(
            f"{host} has no address on this machine (yet): torchrun asks for it for some minutes; is the name right?"
        )
    words = [*starter, *run.words()]
    variables = {**unlaunched(environment), **run.variables(environment)}
    try:
        return replace(words, variables)
    except OSError as error:
        complain(f"{words[0]}: {reason(error)}")
        return 2


def replace(words: Sequence[str], variables: Mapping[str, str]) -> int:
    """Become another program, where the system can; else run it and return its exit status."""
    if os.name == "posix":
        os.execve(words[0], list(words), dict(variables))
    return subprocess.call(list(words), env=dict(variables))


def show(run: Run, environment: Mapping[str, str], dry: bool, quiet: bool) -> None:
    """Print the table on standard error, and the command: on standard output if that is all that was asked for.

    Raises:
        FileError: standard output is closed, or its disk is full.
    """
    if not quiet:
        say(table(run))
        if not dry:
            say([[("  command: ", ""), (command_line(run, environment), "")]])
        more = run.processes.elsewhere()
        say([[(f"  {more}", "bold")]] if more else [])
    if dry:
        put(os.fsencode(command_line(run, environment) + "\n"))
