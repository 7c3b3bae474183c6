"""What `distify rewrite` and `distify check` were asked for: the values of their options, checked and put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..options import DEFAULTS, OptionError, Options, nearest, of_run, parse
from ..report.names import FORMATS

if TYPE_CHECKING:
    from ..check import Checking
    from ..convert import Request


class Usage(Exception):
    """A command line that can't be meant; the message says why."""


def rewriting(
    paths: Sequence[str],
    *,
    output: str | None = None,
    diff: bool = False,
    check: bool = False,
    follow: bool = True,
    partial: bool = False,
    budget: str | None = None,
    jobs: str | None = None,
    stdin_filename: str | None = None,
    form: str = "text",
    page: str | None = None,
    quiet: bool = False,
    verbose: bool = False,
    **run: str | bool,
) -> Request:
    """A conversion that was asked for.

    Args:
        run: options of the run, by their names in `Options`.

    Raises:
        Usage: the options contradict each other, or a value is none.
    """
    assert run.keys() <= DEFAULTS.keys(), run
    if "-" in paths and len(paths) > 1:
        raise Usage("'-' (standard input) can't be mixed with files")
    if stdin_filename is not None and list(paths) != ["-"]:
        raise Usage("--stdin-filename goes with '-' only")
    if output is not None and (diff or check):
        raise Usage(f"-o writes and {'--diff' if diff else '--check'} doesn't; leave one out")
    if quiet and verbose:
        raise Usage("--quiet and --verbose exclude each other")
    check_reports(form, page, code="-" in (output, *paths) and output in (None, "-") and not (diff or check))
    from ..convert import Request

    try:
        options = Options(
            **of_run(run),
            partial=partial,
            budget=budget,  # type: ignore[arg-type]
            jobs=jobs,  # type: ignore[arg-type]
        )
    except OptionError as error:
        raise Usage(str(error)) from None
    return Request(paths, options, output, stdin_filename, diff, check, quiet, verbose, follow, form, page)


def check_reports(form: str, page: str | None, code: bool) -> None:
    """Refuses formats that don't exist, and what would mix with converted code on standard output."""
    if form not in FORMATS:
        raise Usage(f"--format {form}: choose one of {', '.join(FORMATS)}")
    if form != "text" and code:
        raise Usage(f"--format {form} and the converted code both go to standard output; add --diff")
    if page is not None and not page.lower().endswith((".html", ".htm")):
        raise Usage(f"--report {page}: the name of a page ends in .html")


def checking(
    paths: Sequence[str],
    *,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    per_file_ignores: Sequence[str] | None = None,
    fix: bool = False,
    form: str = "text",
    exit_zero: bool = False,
    follow: bool = True,
    budget: str | None = None,
    jobs: str | None = None,
    stdin_filename: str | None = None,
    quiet: bool = False,
) -> Checking:
    """A check that was asked for.

    Raises:
        Usage: the options contradict each other, or a value is none.
    """
    if "-" in paths and (len(paths) > 1 or fix):
        raise Usage("'-' (standard input) can't be mixed with files, and not be fixed")
    if stdin_filename is not None and list(paths) != ["-"]:
        raise Usage("--stdin-filename goes with '-' only")
    from ..check import Checking
    from ..selection import Selections

    if form not in FORMATS:
        raise Usage(f"--format: unknown value '{form}', {nearest(form, FORMATS)}")
    try:
        selections = Selections.given(select, ignore, per_file_ignores)
        seconds = None if budget is None else int(parse("budget", budget, "--budget"))
        processes = None if jobs is None else int(parse("jobs", jobs, "--jobs"))
    except OptionError as error:
        raise Usage(str(error)) from None
    return Checking(paths, selections, fix, form, exit_zero, quiet, follow, stdin_filename, seconds, processes)
