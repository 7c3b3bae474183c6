"""The work of `distify rewrite`: reads all files, converts them in memory, then writes, shows or compares."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from . import spread
from .dataclass import dataclass, replace
from .files import FileError, TooLarge, expand, limited, read, reason
from .options import OptionError, Options
from .report.stream import Progress, complain, put, put_diff, say
from .report.text import Wording, report
from .rewrite import InternalError, Result
from .rewriter import Planner, Rewriter
from .source import SourceError
from .targets import STDIN, Item, check_home, check_page, placed, target
from .writing import Replacement, all_or_nothing, other_names, write_all

BUG = "This is a mistake of distify; nothing was written. Please report it together with the file."

DONE, CHANGES, FAILED = 0, 1, 2
"""Exit codes: done or nothing to do; would change, or refused; usage, unreadable input or internal error."""


@dataclass(frozen=True)
class Request:
    """What the command line asks for.

    Attributes:
        paths: files and folders, or `-` alone.
        options: of the conversion.
        out: where to write instead, "-" for standard output.
        stdin_filename: what to call standard input.
        diff, check: show or compare instead of writing.
        quiet, verbose: how much to say.
        follow: whether the local modules that a script imports are converted with it.
        format: of what is told, one of `report.formats.FORMATS`; all but text go to standard output.
        page: a file for the report as a web page.
    """

    paths: Sequence[str]
    options: Options
    out: str | None = None
    stdin_filename: str | None = None
    diff: bool = False
    check: bool = False
    quiet: bool = False
    verbose: bool = False
    follow: bool = True
    format: str = "text"
    page: str | None = None

    @property
    def explained(self) -> bool:
        """Whether what each edit changed is told."""
        return self.format != "text" or self.page is not None

    @property
    def proved(self) -> bool:
        """Whether it is made sure that a second conversion would change nothing: a mere question needs no proof."""
        return not self.check

    @property
    def writes(self) -> bool:
        """Whether the conversion goes anywhere."""
        return not (self.diff or self.check)


def convert(request: Request) -> int:
    """Converts files and returns the exit code. Nothing is written if one of them fails or is refused."""
    try:
        return _convert(request)
    except FileError as error:
        complain(str(error))
        return FAILED


def _convert(request: Request) -> int:
    items = list(inputs(request))
    items = [replace(item, target=target(request.out, item, len(items))) for item in items]
    check_page(request.page)
    done, failed, roots = converted(request, items)
    done = placed(request.out, done)
    if request.out is None:
        check_home(done, roots)
    refused = any(result.refused for _, result in done)
    differ = [(item, result) for item, result in done if result.changed]
    goes = request.options.partial or not (failed or refused)
    if goes and request.writes:
        with all_or_nothing():
            deliver(done, request.quiet)
    if goes and request.diff and request.format == "text":
        from .report.diff import unified

        put_diff(line for _, result in differ for line in unified(result.path, result.before, result.data))
    written = goes and request.writes and request.out is None
    hand_over(request, [result for _, result in done], written, failed)
    scripts = [item.target for item, result in differ if result.entry and item.target != STDIN]
    # A single file named is asked about; a hook names a thousand, of which most train nothing.
    named = len(items) == 1 and not items[0].root
    verb = "converted" if request.writes else "would be converted"
    wording = Wording(request.quiet, request.verbose, named, verb)
    if request.format == "text":
        say(report([result for _, result in done], wording, goes, scripts if goes and request.writes else []))
    if not items and not request.quiet:
        complain("no Python files found")
    if failed:
        return FAILED
    return CHANGES if refused or (request.check and differ) else DONE


def inputs(request: Request) -> Iterator[Item]:
    """Reads all that is to be converted."""
    if list(request.paths) == [STDIN]:
        yield Item(STDIN, request.stdin_filename or "<stdin>", "", standard_input())
        return

    def leave(line: str) -> None:
        if not request.quiet:
            complain(line)

    for path, root in expand(request.paths, leave):
        try:
            data = read(path)
        except TooLarge as error:
            if not root:
                raise
            leave(f"{error}; left alone")
            continue
        yield Item(path, path, root, data)


def standard_input() -> bytes:
    """All of standard input.

    Raises:
        FileError: it is closed or can't be read.
    """
    if sys.stdin is None:
        raise FileError("standard input: closed")
    try:
        return limited("standard input", sys.stdin.buffer)
    except OSError as error:
        raise FileError(f"standard input: {reason(error)}") from None


def converted(
    request: Request, items: Sequence[Item], planner: Planner | None = None
) -> tuple[list[tuple[Item, Result]], list[str], list[str]]:
    """The results of all files that could be converted and of the modules they import; what was said of those that
    could not; and the folders that the project of each script lies in."""
    follows = request.follow and list(request.paths) != [STDIN]
    rewriter = Rewriter(module_bytes if follows else None, planner, request.explained, request.proved)
    given = {os.path.realpath(item.name): item for item in items}
    failed: dict[str, str] = {}

    def attempt(name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (SourceError, OptionError) as error:
            failed[name] = str(error)
            complain(failed[name])
        except InternalError as error:
            failed[name] = f"{error}. {BUG}"
            complain(failed[name])

    with Progress(not request.quiet) as shown:
        for number, item in enumerate(items, 1):
            shown.at(f"{item.name} ({number} of {len(items)})")
            attempt(item.name, partial(rewriter.register, item.name, item.data))
        scripts = rewriter.scripts()
        shares = spread.shares(rewriter, scripts, request.options)
        if len(shares) > 1:
            shown.at(f"{len(scripts)} scripts, in {len(shares)} processes")
            results = spread.results(rewriter, request.options, scripts, shares, attempt)
        else:
            for number, name in enumerate(scripts, 1):
                shown.at(f"{name} (script {number} of {len(scripts)})")
                attempt(name, partial(spread.plan, rewriter, request.options, name))
            results = rewriter.results(attempt)
    told = [pair_of(given, result) for result in results if result.path not in failed]
    return told, list(failed.values()), [root for name in scripts for root in rewriter.roots(name)]


def hand_over(request: Request, results: Sequence[Result], written: bool, failures: Sequence[str]) -> None:
    """Puts the results in the format that was asked for to standard output, and into a page."""
    if request.page is not None:
        from .report.page import page

        write_all([Replacement(request.page, page(results, "rewrite", written=written, failures=failures))])
    if request.format != "text":
        from .report.formats import render

        put(render(request.format, results, "rewrite", written=written, failures=failures))


def pair_of(given: Mapping[str, Item], result: Result) -> tuple[Item, Result]:
    """A result with its file: one that was given, or a module that was followed."""
    item = given.get(os.path.realpath(result.path))
    if item is not None:
        return item, result
    return Item(result.path, result.path, "", result.before, result.path), replace(result, followed=True)


def module_bytes(path: str) -> bytes | None:
    """The bytes of an imported module, `None` if it can't be read: it stays a name."""
    try:
        return read(path)
    except FileError:
        return None


def deliver(done: Sequence[tuple[Item, Result]], quiet: bool) -> None:
    """Writes the conversions: all files or none. Elsewhere than in place, unchanged files are written too."""
    replacements = []
    for item, result in done:
        if item.target == STDIN:
            put(result.data)
        elif item.target == item.path and result.changed:
            replacements.append(Replacement(item.target, result.data, before=result.before))
        elif item.target != item.path:
            like = None if item.path == STDIN else item.path
            replacements.append(Replacement(item.target, result.data, like=like))
    linked = [(item.path, other_names(item.path)) for item in replacements]
    write_all(replacements)
    for path, others in linked:
        if others > 0 and not quiet:
            complain(f"{path}: had {others + 1} names (hard links); only this one has the new text")
