"""The work of `distify rewrite`: reads all files, converts them in memory, then writes, shows or compares."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .files import FileError, Replacement, expand, read, write_all
from .options import OptionError, Options, configuration
from .report.diff import unified
from .report.stream import complain, progress, put, put_diff, say
from .report.text import Wording, report
from .rewrite import InternalError, Result, rewrite_source
from .source import SourceError

STDIN = "-"
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
    """

    paths: Sequence[str]
    options: Options
    out: str | None = None
    stdin_filename: str | None = None
    diff: bool = False
    check: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def writes(self) -> bool:
        """Whether the conversion goes anywhere."""
        return not (self.diff or self.check)


@dataclass(frozen=True)
class Item:
    """A file to convert: its path, its name in messages, the folder that it was found through, and its bytes."""

    path: str
    name: str
    root: str
    data: bytes


def convert(request: Request) -> int:
    """Converts files and returns the exit code. Nothing is written if one of them fails or is refused."""
    try:
        items = list(inputs(request))
        targets = {item.path: target(request, item, len(items)) for item in items}
    except FileError as error:
        complain(str(error))
        return FAILED
    results, failed = converted(request, items)
    refused = any(result.refused for result in results)
    changed = any(result.changed for result in results)
    goes = request.options.partial or not (failed or refused)
    if goes and request.writes:
        try:
            deliver(results, targets)
        except FileError as error:
            complain(f"{error}; nothing was written")
            return FAILED
    if goes and request.diff:
        put_diff(
            line for result in results if result.changed for line in unified(result.path, result.before, result.data)
        )
    scripts = [
        targets[result.path] for result in results if goes and request.writes and result.changed and result.entry
    ]
    wording = Wording(request.quiet, request.verbose, "converted" if request.writes else "would be converted")
    shown = [script for script in scripts if goes and request.writes and script != STDIN]
    say(report(results, wording, goes, shown))
    if not items and not request.quiet:
        complain("no Python files found")
    if failed:
        return FAILED
    return CHANGES if refused or (request.check and changed) else DONE


def inputs(request: Request) -> Iterator[Item]:
    """Reads all that is to be converted."""
    if list(request.paths) == [STDIN]:
        yield Item(STDIN, request.stdin_filename or "<stdin>", "", sys.stdin.buffer.read())
        return
    for path, root in expand(request.paths):
        if path.endswith(".ipynb"):
            raise FileError(f"{path}: a notebook; export it first: jupyter nbconvert --to script {path}")
        yield Item(path, path, root, read(path))


def target(request: Request, item: Item, count: int) -> str:
    """Where the conversion of a file goes."""
    if request.out is None:
        return item.path
    if request.out == STDIN:
        if count > 1:
            raise FileError("-o -: several files can't go to standard output; use --diff, or -o FOLDER")
        return STDIN
    below = os.path.relpath(item.path, item.root) if item.root else os.path.basename(item.name)
    if item.root or os.path.isdir(request.out) or request.out.endswith(os.sep):
        return os.path.join(request.out, below)
    if count > 1:
        raise FileError(f"{request.out}: not a folder, and there are {count} files to write")
    return request.out


def converted(request: Request, items: Sequence[Item]) -> tuple[list[Result], bool]:
    """The results of all files that could be read, and whether one could not."""
    results: list[Result] = []
    failed = False
    with progress(not request.quiet) as shown:
        for number, item in enumerate(items, 1):
            shown.at(f"{item.name} ({number} of {len(items)})")
            try:
                place = Path(item.name if item.path == STDIN else item.path)
                options = replace(request.options, configured=configuration(place.parent))
                results.append(replace(rewrite_source(item.data, item.name, options), path=item.path))
            except (SourceError, OptionError) as error:
                complain(str(error))
                failed = True
            except InternalError as error:
                complain(f"{error}. {BUG}")
                failed = True
    return results, failed


def deliver(results: Sequence[Result], targets: dict[str, str]) -> None:
    """Writes the conversions: all files or none. Elsewhere than in place, unchanged files are written too."""
    replacements = []
    for result in results:
        where = targets[result.path]
        if where == STDIN:
            put(result.data)
        elif where == result.path and result.changed:
            replacements.append(Replacement(where, result.data, before=result.before))
        elif where != result.path:
            replacements.append(Replacement(where, result.data, like=result.path))
    write_all(replacements)
