"""A run that can't start as it is configured ends with one line on standard error and exit status 2."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from .config import ConfigError
from .launcher import LaunchError

GRACE = 5.0  # seconds by which the process that speaks may be behind the others
KILLING = ("TORCHELASTIC_RUN_ID", "SLURM_STEP_ID", "OMPI_COMM_WORLD_SIZE")  # launchers that end all when one ends
STATUS = 2  # what argparse and most shells' tools end with when they were called wrongly


class Misconfigured(SystemExit):
    """The run can't start as it is configured; raised by `init` once the reason stands on standard error.

    A `SystemExit`, as argparse raises it: no traceback is shown, hooks of other libraries stay out of it, and an
    `except Exception` of the script can't take it for a failure of its own. Whoever calls `init` from a program of
    their own may catch it.

    Attributes:
        error: what is wrong, a `ConfigError` or `LaunchError`.
    """

    def __init__(self, error: ConfigError | LaunchError) -> None:
        super().__init__(STATUS)
        self.error = error

    def __str__(self) -> str:
        return str(self.error)


@contextmanager
def one_line(caller: FrameType | None = None) -> Iterator[None]:
    """Turn errors of configuration inside into `Misconfigured`.

    Args:
        caller: where the script calls `init`, named if an argument is wrong.

    Raises:
        Misconfigured: in place of a `ConfigError` or `LaunchError`.
    """
    try:
        yield
    except (ConfigError, LaunchError) as error:
        if speaks() or (isinstance(error, LaunchError) and not error.everywhere):
            sys.stderr.write(f"distify: {line(error, caller)}\n")
            sys.stderr.flush()
        elif any(name in os.environ for name in KILLING):
            time.sleep(GRACE)  # else the launcher may end the process that speaks before it has spoken
        raise Misconfigured(error) from error


def line(error: Exception, caller: FrameType | None = None) -> str:
    """The message of an error on one line, after the place of the call if it is about an argument."""
    text = " ".join(str(error).split())
    if caller is None or not text.startswith("runtime.init("):
        return text
    return f"{os.path.relpath(caller.f_code.co_filename)}:{caller.f_lineno}: {text}"


def speaks(environment: Mapping[str, str] | None = None) -> bool:
    """Whether this process says what fails on all alike: one on each machine, since machines may differ.

    A process that can't tell its place speaks: said twice is better than not at all.
    """
    environment = os.environ if environment is None else environment
    for name in ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "RANK"):
        text = environment.get(name, "")
        if text.isdigit():
            return int(text) == 0
    return True
