"""The work of `distify check`: reads files, says what it finds in them, and writes only with `--fix`."""

from __future__ import annotations

from collections.abc import Sequence

from .checking import check_plans
from .convert import DONE, FAILED, Request, converted, deliver, inputs
from .dataclass import dataclass, field, replace
from .files import FileError
from .options import OptionError, Options
from .plan import Plan
from .program import Module, Program
from .report.findings import listing, summary
from .report.stream import complain, put, put_lines, say
from .rewrite import Result
from .selection import Selections
from .targets import STDIN, Item, check_home
from .writing import all_or_nothing

FOUND = 1
"""Exit code: an error or a warning was found. Notes alone are none."""

Done = list[tuple[Item, Result]]


@dataclass(frozen=True)
class Checking:
    """What the command line asks for.

    Attributes:
        paths: files and folders, or `-` alone.
        selections: which findings are wanted.
        fix: whether what can be mended is written.
        form: the format, one of `report.formats.FORMATS`.
        exit_zero: findings don't make the exit code 1.
        quiet: errors and warnings only, and no summary.
        follow: whether the local modules that a script imports are checked with it.
        stdin_filename: what to call standard input.
        budget: seconds that the analysis of one program may take.
        jobs: processes that check programs; 0 for as many as are worth it.
    """

    paths: Sequence[str]
    selections: Selections = field(default_factory=Selections)
    fix: bool = False
    form: str = "text"
    exit_zero: bool = False
    quiet: bool = False
    follow: bool = True
    stdin_filename: str | None = None
    budget: int | None = None
    jobs: int | None = None

    @property
    def request(self) -> Request:
        """The same for the reading of files."""
        options = Options(budget=self.budget, jobs=self.jobs)
        return Request(
            self.paths,
            options,
            stdin_filename=self.stdin_filename,
            check=not self.fix,
            quiet=self.quiet,
            follow=self.follow,
            format=self.form,
        )


def check(asked: Checking) -> int:
    """Checks files and returns the exit code."""
    try:
        return _check(asked)
    except (FileError, OptionError) as error:
        complain(str(error))
        return FAILED


def _check(asked: Checking) -> int:
    items = [replace(item, target=item.path) for item in inputs(asked.request)]
    asked.selections.at(".")
    done, failed, roots = look(asked, items)
    fixed: list[Result] = []
    if asked.fix and not failed:
        with all_or_nothing():
            check_home(done, roots)
            deliver(done, asked.quiet)
        fixed = [result for _, result in done if result.changed]
    if fixed:
        new = {item.path: result.data for item, result in done}
        done, failed, _ = look(asked, [replace(item, data=new.get(item.path, item.data)) for item in items])
    results = [result for _, result in done]
    show(asked, results, fixed, failed)
    if not items and not asked.quiet:
        complain("no Python files found")
    if failed:
        return FAILED
    serious = any(item.level != "note" for result in results for item in result.findings)
    return FOUND if serious and not asked.exit_zero else DONE


def look(asked: Checking, items: Sequence[Item]) -> tuple[Done, list[str], list[str]]:
    """The results of all files with the findings that are wanted, what was said of those that failed, the projects."""

    def planner(program: Program, options: Options) -> list[tuple[Module, Plan]]:
        return check_plans(program, options, asked.selections.at)

    done, failed, roots = converted(asked.request, items, planner)
    wanted = []
    for item, result in done:
        findings = asked.selections.at(result.path).of(result.findings, result.path)
        wanted.append((item, replace(result, findings=tuple(findings))))
    return wanted, failed, roots


def show(asked: Checking, results: list[Result], fixed: list[Result], failed: list[str]) -> None:
    """Findings go to standard output, what was done about them to standard error.

    Raises:
        FileError: standard output is closed, or the disk is full.
    """
    if asked.form == "text":
        put_lines(listing(results, asked.quiet))
    else:
        from .report.formats import render

        put(render(asked.form, results, "check", written=bool(fixed), failures=failed))
    if not (asked.quiet or failed):
        say(summary(results, fixed))


__all__ = ["STDIN", "Checking", "check"]
