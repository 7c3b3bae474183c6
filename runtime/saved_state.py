"""`save_state`, `load_state`: all that a run needs to go on, on any number of processes and any backend."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

from . import saved_files, saving
from .collectives import from_main, gather_objects, together
from .guard import by_itself
from .joining import timeout
from .meeting import meet
from .saved_files import CheckpointError
from .saved_load import Loading
from .saved_run import collect
from .state import DistifyError, State, require
from .uncompiled import uncompiled

Result = TypeVar("Result")


@uncompiled
def save_state(folder: str | os.PathLike[str], /, *, keep: int = 1, asynchronous: bool = False, **given: Any) -> str:
    """Write a checkpoint of the whole run into a folder; a collective.

    It holds all prepared modules and optimizers, the loss scale, the random streams, and how far each sharded loader
    has come, so that a run that loads it prints what this one will. Every rank writes its own parts, into a folder
    under a temporary name that is renamed when it is complete: one that is interrupted leaves the one before.

    Args:
        folder: all ranks see it, a relative one is taken as rank 0 takes it; each checkpoint gets a folder of its own
            in it, `state-00000001` and so on.
        keep: how many older checkpoints stay beside the new one, at least 0; the others are removed when it is
            complete.
        asynchronous: return when what it holds has been copied, and write it while the run goes on; the next call, or
            the end of the run, waits for it and reports its failure. Needs memory of the host for the copies.
        given: objects with `state_dict` and `load_state_dict` (schedulers, averaged models), generators of random
            numbers, and plain values (numbers, strings, tensors, lists and dicts of them), by names to load them by. A
            prepared module or optimizer is held anyway, and gets that name.

    Returns:
        The folder of the new checkpoint.

    Raises:
        NotInitialized: `init` has not run.
        CheckpointError: it can't be written, or the one before could not, on all ranks; the message names the rank and
            the reason.
        Unstorable: a value would need pickled code.
        DistifyError: it stands inside an accumulation window, whose gradients would be lost, or in what one rank does.
    """
    run = require("save_state")
    if type(keep) is not int or keep < 0:
        raise DistifyError(f"runtime.save_state(keep={keep!r}): give a whole number, at least 0, of older ones.")
    together("save_state")
    meet("runtime.save_state()")
    saving.settle(run)
    record, tensors = collect(run, given)
    folder = os.fspath(folder)
    _check_alike(run, {key: tuple(value.shape) for key, value in tensors.items() if isinstance(value, Tensor)})
    part, final = _on_all(run, f"save_state({folder!r})", lambda: saved_files.begin(os.path.abspath(folder)))
    _everywhere(run, f"save_state({folder!r})", lambda: _see(part))
    from . import saved_tensors

    mine = saved_tensors.share(tensors, run.rank, run.world_size)
    group = run.reduce_group if run.world_size > 1 else None
    if asynchronous:  # the run will change what it holds
        mine, group = saving.copied(mine), saving.group(run, timeout())

    def finished() -> None:
        saved_files.record(part, record)
        saved_files.finish(part, final, keep)

    def write() -> None:
        try:
            saved_tensors.write(part, mine, group, finished)
        except saved_tensors.Unwritten as error:
            if run.rank == 0:
                saved_files.abandon(part)
            before = saved_files.complete(os.path.dirname(final))
            kept = f" The one before it, {before[-1]}, is complete." if before else ""
            raise CheckpointError(f"runtime.save_state({folder!r}): {error}.{kept}") from error

    if asynchronous:
        run.extra["saving"] = saving.Saving(write)
    else:
        write()
    return final


def _check_alike(run: State, mine: dict[str, tuple[int, ...]]) -> None:
    """That all ranks hand over the same tensors, which they share among themselves to write.

    Raises:
        CheckpointError: they don't.
    """
    found = [mine] if run.world_size == 1 else gather_objects(mine)
    for rank, theirs in enumerate(found):
        names = sorted(key for key in found[0].keys() | theirs.keys() if found[0].get(key) != theirs.get(key))
        if names:
            first, other = (f"of shape {one[names[0]]}" if names[0] in one else "none" for one in (found[0], theirs))
            raise CheckpointError(
                f"runtime.save_state(): {names[0]!r} is {first} on rank 0 and {other} on rank {rank}. Pass what all "
                "ranks hold alike: runtime.gather() makes the rows of a batch whole."
            )


def reason(error: BaseException) -> str:
    """What went wrong, in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, (OSError, CheckpointError)) else f"{type(error).__name__}: {text}"


@uncompiled
def load_state(folder: str | os.PathLike[str], /, **objects: Any) -> dict[str, Any]:
    """Go on from a checkpoint of `save_state`, once everything is built and prepared; a collective.

    The number of processes, the backend and the precision may be others than those that wrote it.

    Args:
        folder: that of `save_state`, of which the newest checkpoint is taken, or one of the checkpoints in it.
        objects: those that `save_state` was given, by the same names.

    Returns:
        The plain values that `save_state` was given, by name.

    Raises:
        NotInitialized: `init` has not run.
        CheckpointError: there is no checkpoint, it is damaged, or it is one of another program; on all ranks.
    """
    run = require("load_state")
    together("load_state")
    meet("runtime.load_state()")
    saving.settle(run)
    folder = os.fspath(folder)
    what = f"load_state({folder!r})"
    path, record = _on_all(run, what, lambda: _found(os.path.abspath(folder)))
    loading = _everywhere(run, what, lambda: _read(run, path, record, objects))
    return loading.apply()


def _see(path: str) -> None:
    """That this process sees a folder which rank 0 does.

    Raises:
        CheckpointError: it does not.
    """
    if not os.path.isdir(path):
        raise CheckpointError(
            f"{path!r}, which rank 0 has, is not there on this process. Every process writes and reads its own "
            "parts, so the folder must be one that all share; or write one file with runtime.save()."
        )


def _found(folder: str) -> tuple[str, dict[str, Any]]:
    path = saved_files.find(folder)
    return path, saved_files.read_record(path)


def _read(run: State, path: str, record: dict[str, Any], objects: dict[str, Any]) -> Loading:
    from . import saved_tensors

    _see(path)
    loading = Loading(run, record, saved_tensors.index(path), objects)
    loading.plan()
    saved_tensors.read(path, {key: saved_tensors.piece(target) for key, target in loading.targets.items()})
    return loading


@uncompiled
def latest(folder: str | os.PathLike[str]) -> str | None:
    """The newest complete checkpoint in a folder of `save_state`, `None` if there is none; the same on all ranks.

    Args:
        folder: need not exist.

    Raises:
        NotInitialized: `init` has not run.
    """
    run = require("latest")
    together("latest")
    meet("runtime.latest()")
    saving.settle(run)
    found = _on_all(run, f"latest({os.fspath(folder)!r})", lambda: saved_files.complete(os.path.abspath(folder)))
    return found[-1] if found else None


def _on_all(run: State, what: str, function: Callable[[], Result]) -> Result:
    """What rank 0 gets from a function, on all ranks; its failure too.

    Raises:
        CheckpointError: it raised.
    """
    told: tuple[Any, str | None] = None, None
    if run.rank == 0:
        try:
            told = function(), None
        except (OSError, CheckpointError) as error:
            told = None, reason(error)
    found, failed = told if by_itself() else from_main(told)
    if failed is not None:
        raise CheckpointError(f"runtime.{what}: {failed}")
    return found  # type: ignore[no-any-return]


def _everywhere(run: State, what: str, function: Callable[[], Result]) -> Result:
    """The result of a function that all ranks call; the failure of one is that of all.

    Raises:
        CheckpointError: it raised on some rank.
    """
    failed, found = None, None
    try:
        found = function()
    except Exception as error:
        failed = error
    mine = None if failed is None else reason(failed)
    texts: list[str | None] = [mine] if run.world_size == 1 else gather_objects(mine)
    bad = [(rank, text) for rank, text in enumerate(texts) if text is not None]
    if bad:
        alike = len(bad) == run.world_size and len({text for _, text in bad}) == 1
        told = bad[0][1] if alike else f"rank {bad[0][0]}: {bad[0][1]}"
        raise CheckpointError(f"runtime.{what}: {told}") from failed
    return found  # type: ignore[return-value]
