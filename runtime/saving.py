"""Checkpoints that are written while the run goes on: copies of what they hold, a thread, a process group."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import torch.distributed as dist

from .backends.pieces import Piece
from .saved_files import CheckpointError
from .state import State


def copied(pieces: dict[str, Piece]) -> dict[str, Piece]:
    """Copies in the memory of the host, which the run does not change."""
    return {
        key: Piece(one.shape, one.dtype, [(at, values.detach().to("cpu", copy=True)) for at, values in one.boxes])
        for key, one in pieces.items()
    }


def group(run: State, limit: timedelta) -> dist.ProcessGroup | None:
    """The process group of these checkpoints, so that their exchanges can't meet those of the run; a collective."""
    if run.world_size == 1:
        return None
    found = run.extra.get("saving group")
    if found is None:
        found = run.extra["saving group"] = dist.new_group(backend="gloo", timeout=limit)
    made: dist.ProcessGroup = found
    return made


class Saving:
    """One checkpoint on its way to the disk.

    Args:
        write: writes it.
    """

    def __init__(self, write: Callable[[], None]) -> None:
        self.write = write
        self.error: CheckpointError | None = None
        self.thread = threading.Thread(target=self._run, name="distify save_state", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.write()
        except CheckpointError as error:
            self.error = error
        except Exception as error:  # as of a collective: another rank is gone
            told = " ".join(str(error).split())
            self.error = CheckpointError(f"runtime.save_state(asynchronous=True): {type(error).__name__}: {told}")


def wait(run: State) -> None:
    """Let the checkpoint that is being written come to an end, at the end of a run that has failed."""
    saving: Saving | None = run.extra.get("saving")
    if saving is not None:
        saving.thread.join()


def settle(run: State) -> None:
    """Wait until the checkpoint that is being written is complete.

    Raises:
        CheckpointError: it could not be written, on all ranks.
    """
    saving: Saving | None = run.extra.pop("saving", None)
    if saving is None:
        return
    saving.thread.join()
    if saving.error is not None:
        raise saving.error
