"""The help of `distify` as typer writes it, kept as it is: building it takes ten times as long as starting Python.

A test asks that both are the same.
"""

from __future__ import annotations

import os
import sys

WIDTH = 80

TEXT = """\
Usage: distify [OPTIONS] COMMAND [ARGS]...

  Turn a single-process PyTorch training script into the distributed one: same
  run, more processes.

  The verbs stand in the order of use; distify VERB --help tells more, with
  examples.

Options:
  --version             Print the version and exit.
  --install-completion  Install completion for the current shell.
  --show-completion     Show completion for the current shell, to copy it or
                        customize the installation.
  -h, --help            Show this message and exit.

Commands:
  rewrite      Convert training scripts, in place unless told otherwise.
  check        Report what a conversion would do, and what is unsafe.
  verify       Run the original and the conversion, and compare them.
  launch       Start a converted script on several processes or machines.
  config       Write the options of a project into pyproject.toml.
  doctor       Say what a run needs and lacks on this machine.
  explain      Say what a finding means, and what to do about it.
  rules        List the codes of all findings, by family.
  consolidate  Turn a checkpoint in parts into one plain file.
"""


def show() -> int | None:
    """Prints the help and returns the exit code, `None` where 80 columns are too many and typer breaks the lines."""
    if sys.stdout is None or columns() < WIDTH:
        return None
    sys.stdout.write(TEXT)
    return 0


def columns() -> int:
    """How wide the terminal is, as `shutil` finds out."""
    told = os.environ.get("COLUMNS", "")
    if told.isdigit() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or WIDTH  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return WIDTH
