"""`python -m distify.codemod`, and the entry point of the command `distify`."""

from __future__ import annotations

import gc
import os
import sys

FAILED = 2
INTERRUPTED = 130
WITH_ARGUMENTS = ("launch", "verify")

TYPE_CHECKING = False  # as `typing` has it, which takes longer to import than this file
if TYPE_CHECKING:
    from . import plainly


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
    # Trees of syntax are large, live long and hold few cycles: the collector would go through them again and again.
    gc.set_threshold(100_000, 20, 20)
    code = run(sys.argv[1:])
    if sys.argv[1:2] in (["rewrite"], ["check"]):
        end(code)
    sys.exit(code)


def end(code: int) -> None:
    """Ends the process at once: nothing is left to do, and the system takes large trees away faster than Python."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return  # as Python has it
    os._exit(code)


def run(arguments: list[str]) -> int:
    """Runs the command with the given arguments and returns the exit code."""
    try:
        code = without_typer(arguments)
        if code is None:
            from .cli import app

            code = app(arguments, prog_name="distify", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        if code == INTERRUPTED:  # what typer makes of Ctrl-C
            from .report.stream import complain

            complain("interrupted; no file was left half-written")
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # distify … --diff | head
        from .report.stream import drop_output

        drop_output()
        return 0
    except Exception as error:
        from .report.stream import complain

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


def without_typer(arguments: list[str]) -> int | None:
    """The exit code of what is done often and needs no typer: the help, and `rewrite` and `check` rightly called."""
    if os.name == "nt" or "_DISTIFY_COMPLETE" in os.environ:
        return None
    if arguments in (["--help"], ["-h"]):
        from . import overview

        return overview.show()
    from . import plainly

    verb, words = (arguments or [""])[0], arguments[1:]
    values = plainly.read(verb, words) if verb in plainly.OPTIONS else None
    if values is None:
        return None
    try:
        return work(verb, values)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # distify … --diff | head: as typer has it
        from .report.stream import drop_output

        drop_output()
        return 1


def work(verb: str, values: plainly.Values) -> int | None:
    """The exit code of `rewrite` and `check`, `None` if typer is to say what is wrong with the command line."""
    from . import idle

    code = idle.run(verb, values)
    if code is not None:
        return code
    from .commands import asked

    try:
        if verb == "check":
            from .check import check

            return check(asked.checking(**values))
        from .convert import convert

        return convert(asked.rewriting(**values))
    except asked.Usage:
        return None


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
