"""Which two programs are compared: the original, and the rewritten one."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..convert import module_bytes
from ..dataclass import dataclass, field, replace
from ..files import FileError, read
from ..folders import project_root, within
from ..options import Options, configuration
from ..rewrite import Result
from ..rewriter import Rewriter

CONVERTED = re.compile(rb"^[ \t]*(?:from[ \t]+distify\b|import[ \t]+distify\b)", re.MULTILINE)
RELATIVE = re.compile(rb"^[ \t]*from[ \t]+\.", re.MULTILINE)
HISTORY = 50  # commits of a script that are looked through for its original


class Unable(Exception):
    """There is nothing to compare; the message says why and what to do."""


@dataclass(frozen=True)
class Program:
    """One of the two programs.

    Attributes:
        script: real path of the file that is run.
        texts: contents that replace those of the project's files, by real path.
        results: of the conversion, if there was one.
        told: how it came about, for the report.
    """

    script: str
    texts: Mapping[str, bytes] = field(default_factory=dict)
    results: Sequence[Result] = ()
    told: str = ""


def is_converted(data: bytes) -> bool:
    """Whether a file imports the runtime."""
    return CONVERTED.search(data) is not None


def modules(script: str) -> list[Result]:
    """A script and the local modules that it imports, as they are."""
    rewriter = Rewriter(module_bytes)
    rewriter.register(script, read(script))
    return rewriter.results()


def rewritten(script: str, options: Options) -> Program:
    """The program that `distify rewrite` would write.

    Raises:
        Unable: something is refused, or the script trains nothing.
        SourceError, OptionError, InternalError: as from `distify rewrite`.
    """
    rewriter = Rewriter(module_bytes)
    rewriter.register(script, read(script))
    if script in rewriter.scripts():
        rewriter.plan(script, replace(options, configured=configuration(Path(script).parent)))
    results = rewriter.results()
    entry = next(result for result in results if result.path == script)
    if any(result.refused for result in results):
        return Program(os.path.realpath(script), {}, results, "refused")
    if not any(result.training for result in results):
        raise Unable(f"{script}: trains no model that distify finds; there is nothing to verify")
    changed = {os.path.realpath(result.path): result.data for result in results if result.changed}
    if not changed and not is_converted(entry.data):
        raise Unable(f"{script}: distify rewrite changes nothing in it; there is nothing to verify")
    return Program(os.path.realpath(script), changed, results, "rewritten")


def original_of(script: str, files: Sequence[str]) -> Program:
    """The original of a converted script: the newest version in git that does not import the runtime.

    Args:
        script: its path.
        files: itself and the local modules that it imports.

    Raises:
        Unable: git knows none.
    """
    ask = f"{script}: is converted already. Name the script that it was made of: --original FILE"
    folder = os.path.dirname(os.path.realpath(script))
    log = git(folder, "log", f"--max-count={HISTORY}", "--format=%h", "--", os.path.basename(os.path.realpath(script)))
    if log is None:
        raise Unable(f"{ask} (it is in no git repository that would tell)")
    for commit in log.decode().split():
        data = version(script, commit)
        if data is not None and not is_converted(data):
            texts = {os.path.realpath(script): data}
            for path in files:
                before = version(path, commit) if is_converted(read(path)) else None
                if before is not None:
                    texts[os.path.realpath(path)] = before
            return Program(os.path.realpath(script), texts, (), f"its version in git, commit {commit}")
    seen = len(log.split())
    raise Unable(f"{ask} (git has {f'{seen} versions that are converted too' if seen else 'no version of it'})")


def version(path: str, commit: str) -> bytes | None:
    """A file as it was in a commit, `None` if it was not there."""
    real = os.path.realpath(path)
    return git(os.path.dirname(real), "show", f"{commit}:./{os.path.basename(real)}")


def git(folder: str, *arguments: str) -> bytes | None:
    """What git answers, `None` if it can't."""
    try:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def home_of(files: Sequence[str], folder: str) -> str:
    """The folder that is copied: the project of these files, with the folder in which the user is if it is above.

    Args:
        files: real paths of the scripts and their modules, the script first.
        folder: real path of the working directory.
    """
    top = os.path.commonpath([os.path.dirname(path) for path in files])
    root = project_root(os.path.dirname(files[0]))
    if root is not None and within(top, root):
        top = root
    if within(top, folder) and not too_wide(folder):
        return folder
    if not too_wide(top):
        return top
    return os.path.dirname(files[0])


def too_wide(folder: str) -> bool:
    """Whether a folder holds much more than a project."""
    return folder in (os.path.abspath(os.sep), os.path.realpath(os.path.expanduser("~")))


def check_inside(home: str, program: Program) -> None:
    """All that changes must be in what is copied.

    Raises:
        FileError: it is not.
    """
    for path in program.texts:
        if not within(path, home):
            raise FileError(f"{path}: is imported and changes, but lies outside of {home}, which is copied")


def how_to_run(script: str, folder: str) -> list[str]:
    """Arguments of the interpreter: the script, or its module where only that can import what is beside it.

    Args:
        script: full path.
        folder: where it is run.
    """
    parts, place = [os.path.splitext(os.path.basename(script))[0]], os.path.dirname(script)
    while os.path.isfile(os.path.join(place, "__init__.py")):
        parts.insert(0, os.path.basename(place))
        place = os.path.dirname(place)
    if len(parts) > 1 and place == folder and RELATIVE.search(read(script)):
        return ["-m", ".".join(parts)]
    return [os.path.relpath(script, folder)]
