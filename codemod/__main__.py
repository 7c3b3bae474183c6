"""`python -m distify.codemod`, and the entry point of the command `distify`."""

from __future__ import annotations

import os
import sys

FAILED = 2
INTERRUPTED = 130
WITH_ARGUMENTS = ("launch", "verify")


def leave_folder_out() -> None:
    """What lies in the working directory is converted, and never takes part in converting.

    `python -m` puts that directory first on the import path, where a `typing_extensions.py` or `rich` of the project
    would be imported in place of the package. The command `distify` does not.
    """
    first = sys.path[0] if sys.path else None
    if first is None or getattr(sys.flags, "safe_path", False):
        return
    here = os.path.realpath(os.curdir)
    if os.path.realpath(first) == here and not os.path.realpath(__file__).startswith(os.path.join(here, "distify", "")):
        del sys.path[0]


def main() -> None:
    """Runs the command and exits with its code; whatever goes wrong is one line on standard error."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs the command with the given arguments and returns the exit code."""
    from .cli import app
    from .report.stream import complain, drop_output

    try:
        code = app(arguments, prog_name="distify", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        if code == INTERRUPTED:  # what typer makes of Ctrl-C
            complain("interrupted; no file was left half-written")
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # distify … --diff | head
        drop_output()
        return 0
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error of typer
            text = error.format_message().removeprefix("Invalid value: ")
            text = f"{text[:1].lower()}{text[1:].rstrip('.')}"
            complain(f"{text} (see: {_help(arguments)})" if text else "")
            return int(getattr(error, "exit_code", FAILED))
        if type(error).__name__ == "Abort":  # the same in older versions
            complain("interrupted; no file was left half-written")
            return INTERRUPTED
        if os.environ.get("DISTIFY_DEBUG"):
            raise
        from .files import FileError
        from .rewrite import described

        if isinstance(error, FileError):  # standard output is closed, or its disk full
            complain(str(error))
            return FAILED
        complain(f"internal error: {described(error)}. Please report it together with the command and the file.")
        return FAILED


def _help(arguments: list[str]) -> str:
    """What tells more about a command that was called wrongly, and how a script gets options of its own."""
    from .cli import VERBS

    verbs = [item.__name__.rpartition(".")[2] for item in VERBS]
    verb = next((word for word in arguments if not word.startswith("-")), "")
    more = "; arguments of the script go after --" if verb in WITH_ARGUMENTS else ""
    return f"distify {verb} --help{more}" if verb in ("rewrite", *verbs) else "distify --help"


if __name__ == "__main__":
    leave_folder_out()
    main()
