"""Checkpoints in a folder: a new one is written under another name and renamed when it is complete."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import Any

from .state import DistifyError

NAME = re.compile(r"state-(\d{8,})")
PART = re.compile(r"state-\d{8,}\.(part|old)")  # being written, or being removed
RECORD = "state.json"
FORMAT = "distify state"
VERSION = 1


class CheckpointError(DistifyError):
    """A checkpoint can't be written or read; the message names the folder, what is wrong with it, and the fix."""


def complete(folder: str) -> list[str]:
    """The complete checkpoints in a folder, the oldest first."""
    try:
        found = [name for name in os.listdir(folder) if NAME.fullmatch(name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    numbered = sorted((int(name.partition("-")[2]), name) for name in found)
    paths = [os.path.join(folder, name) for _, name in numbered]
    return [path for path in paths if os.path.isfile(os.path.join(path, RECORD))]


def find(folder: str) -> str:
    """The checkpoint that a folder is, or the newest that it holds.

    Raises:
        CheckpointError: there is none.
    """
    if os.path.isfile(os.path.join(folder, RECORD)):
        return folder
    found = complete(folder)
    if found:
        return found[-1]
    if not os.path.lexists(folder):
        raise CheckpointError(
            f"there is no folder {folder!r}. Name the folder that save_state was given, or one of the "
            "checkpoints in it; ask runtime.latest(folder) first where a run may be the first."
        )
    if not os.path.isdir(folder):
        raise CheckpointError(
            f"{folder!r} is no folder. If it is a file of runtime.save() or torch.save(), read it with runtime.load()."
        )
    names = sorted(os.listdir(folder))
    torn = [name for name in names if PART.fullmatch(name) or NAME.fullmatch(name)]
    held = f"only {', '.join(torn)}, which was never completed" if torn else ", ".join(names[:4]) or "nothing"
    raise CheckpointError(
        f"{folder!r} holds no checkpoint of runtime.save_state(), but {held}. Name the folder that "
        "save_state was given."
    )


def begin(folder: str) -> tuple[str, str]:
    """Make the folder in which the next checkpoint is written; returns it, and its name when it is complete.

    What interrupted runs have left is removed.

    Raises:
        OSError: the folder can't be written.
    """
    os.makedirs(folder, exist_ok=True)
    names = os.listdir(folder)
    for name in names:
        if PART.fullmatch(name):
            shutil.rmtree(os.path.join(folder, name))
    numbers = [int(name.partition("-")[2]) for name in names if NAME.fullmatch(name)]
    final = os.path.join(folder, f"state-{max(numbers, default=0) + 1:08d}")
    os.mkdir(f"{final}.part")
    return f"{final}.part", final


def record(folder: str, found: dict[str, Any]) -> None:
    """Write what is not a tensor."""
    with open(os.path.join(folder, RECORD), "w", encoding="utf-8") as file:
        json.dump({"format": FORMAT, "version": VERSION, **found}, file, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())


def finish(part: str, final: str, keep: int) -> None:
    """Give a checkpoint its name, once all its files are on the disk; then remove all but `keep` older ones."""
    _sync(part)
    os.rename(part, final)
    folder = os.path.dirname(final)
    _sync(folder)
    older = [path for path in complete(folder) if path != final]
    for path in older[: max(len(older) - keep, 0)]:
        os.rename(path, f"{path}.old")  # else one that is half removed would look complete
        shutil.rmtree(f"{path}.old")


def abandon(part: str) -> None:
    """Remove what was written of a checkpoint that can't be completed: the disk may be full of it."""
    shutil.rmtree(part, ignore_errors=True)


def _sync(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_record(folder: str) -> dict[str, Any]:
    """What `record` wrote.

    Raises:
        CheckpointError: it is damaged, of something else, or of a later version.
    """
    try:
        with open(os.path.join(folder, RECORD), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{folder!r} is damaged: {RECORD} can't be read ({error}). Load another checkpoint of that folder."
        ) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CheckpointError(f"{folder!r} was not written by runtime.save_state(): its {RECORD} says something else.")
    if found.get("version") != VERSION:
        raise CheckpointError(
            f"{folder!r} has version {found.get('version')} of the format, this distify reads version {VERSION}. Load "
            "it with the release of torch-distify that wrote it, or a later one."
        )
    return found
