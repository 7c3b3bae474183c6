"""Where conversions go: in place, to standard output, to another file, or into a folder with the same structure."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .dataclass import dataclass, replace
from .files import FileError, within
from .rewrite import Result

STDIN = "-"


@dataclass(frozen=True)
class Item:
    """A file to convert.

    Attributes:
        path: where it is, `-` for standard input.
        name: what messages call it.
        root: the folder that it was found through, "" for a file given by name.
        data: its bytes.
        target: where the conversion goes.
    """

    path: str
    name: str
    root: str
    data: bytes
    target: str = STDIN


def target(out: str | None, item: Item, count: int) -> str:
    """Where the conversion of a given file goes.

    Args:
        out: what the user gave, "-" for standard output, `None` for in place.
        item: the file.
        count: how many were given.

    Raises:
        FileError: several files can't go there.
    """
    if out is None:
        return item.path
    if out == STDIN:
        if count > 1:
            raise FileError("-o -: several files can't go to standard output; use --diff, or -o FOLDER")
        return STDIN
    below = os.path.relpath(item.path, item.root) if item.root else os.path.basename(item.name)
    if item.root or is_folder(out):
        return os.path.join(out, below)
    if count > 1:
        raise FileError(f"{out}: not a folder, and there are {count} files to write")
    return out


def is_folder(out: str) -> bool:
    """Whether a path is, or is written as, a folder."""
    return os.path.isdir(out) or out.endswith(os.sep)


def placed(out: str | None, done: Sequence[tuple[Item, Result]]) -> list[tuple[Item, Result]]:
    """The files with targets for the modules that scripts import: beside their script, at the same distance.

    Raises:
        FileError: a module has to change and there is no place for it.
    """
    followed = [(item, result) for item, result in done if result.followed]
    if out is None or not followed:
        return list(done)
    given = [item for item, result in done if not result.followed]
    if not (any(item.root for item in given) or is_folder(out)):
        changed = [item.name for item, result in followed if result.changed]
        if changed:
            raise FileError(
                f"-o {out}: the script imports modules that change as well ({', '.join(sorted(changed))}): "
                "give a folder (-o FOLDER/), or --no-follow to convert the script alone"
            )
        return [(item, result) for item, result in done if not result.followed]
    home = os.path.abspath(given[0].root or os.path.dirname(given[0].path))
    found = []
    for item, result in done:
        below = os.path.relpath(os.path.abspath(item.path), home)
        if result.followed and below.startswith(os.pardir):
            if result.changed:
                raise FileError(f"-o {out}: {item.name} changes as well and is not below {home}: convert in place")
            continue
        found.append((replace(item, target=os.path.join(out, below)) if result.followed else item, result))
    return found


def check_home(done: Sequence[tuple[Item, Result]], roots: Sequence[str]) -> None:
    """Modules that a script imports are converted with it where they belong to its project.

    Args:
        done: the conversions, in place.
        roots: resolved folders that the projects of the scripts lie in.

    Raises:
        FileError: a module elsewhere would have to change.
    """
    here = [*roots, os.path.realpath(os.curdir)]
    for item, result in done:
        real = os.path.realpath(item.path)
        if result.followed and result.changed and not any(within(real, root) for root in here):
            leads = f" (a link to {real})" if os.path.islink(item.path) else ""
            raise FileError(
                f"{item.name}{leads}: is imported, and would have to change too, but lies outside of the project "
                f"({roots[0] if roots else here[0]}): give it by name as well, or --no-follow to leave it alone"
            )


def check_page(page: str | None) -> None:
    """A report has a folder to go to, which is known before anything is written.

    Raises:
        FileError: there is none.
    """
    folder = os.path.dirname(page) if page else ""
    if folder and not os.path.isdir(folder):
        raise FileError(f"--report {page}: there is no folder {folder}")
