"""What one rank does for all, and what all must agree on; a rank that fails inside fails everywhere, at once."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import get_worker_info

from . import streams
from .collectives import from_main, gather_objects, together
from .lost import reach
from .meeting import meet
from .state import DistifyError, require, state
from .uncompiled import uncompiled

Result = TypeVar("Result")


class RankFailed(DistifyError):
    """Another rank raised inside a guarded block; the message holds its traceback.

    It is of the kind of what was raised there too, so that an `except FileNotFoundError` catches it on all ranks.
    """

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


@uncompiled
def on_main(function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result | None:
    """Call a function on rank 0 only, while the others wait.

    Random numbers that it draws move the streams of all ranks, as they do in the original. While a sample is fetched
    each rank calls it: the sample is its own.

    Args:
        function, args, kwargs: what to call.

    Returns:
        Its result on rank 0, `None` elsewhere.

    Raises:
        RankFailed: on the other ranks, if it raised on rank 0, where the exception itself is raised.
    """
    require("on_main")
    if state.world_size == 1 or state.extra.get("alone") or fetching():
        return function(*args, **kwargs)
    if state.extra.get("in turn"):  # the first rank of each machine: each has its own disk, and they share theirs
        return function(*args, **kwargs) if state.local_rank == 0 else None
    meet("runtime.on_main()")
    _all_here()
    if state.rank != 0:
        moved = _receive()
        if moved is not None:
            streams.restore(moved)
        return None
    before = streams.digest()
    state.extra["alone"] = True
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        _send(error, None)
        raise
    finally:
        state.extra["alone"] = False
    after = streams.capture()
    _send(None, after if streams.digest(after) != before else None)
    return result


def _all_here() -> None:
    """Before one rank changes files: what the others do before it, as looking whether a file exists, they have done."""
    reach(dist.all_reduce, torch.zeros(1, dtype=torch.uint8), group=state.reduce_group)


def _send(error: BaseException | None, moved: dict[str, Any] | None) -> None:
    from_main((_describe(error), moved))


def _receive() -> dict[str, Any] | None:
    status, moved = from_main(None)
    _raise_there([status])
    found: dict[str, Any] | None = moved
    return found


def _describe(error: BaseException | None) -> tuple[Any, ...] | None:
    """An exception as text, with its class and number; or the status of a `sys.exit`, which is one on all ranks."""
    if error is None:
        return None
    if isinstance(error, SystemExit):
        return "exit", error.code if isinstance(error.code, int) else 1
    kind, number = type(error), getattr(error, "errno", None)
    return "error", "".join(traceback.format_exception(error)), kind.__module__, kind.__qualname__, number


def _raise_there(found: list[tuple[Any, ...] | None]) -> None:
    """Raise what another rank raised."""
    for rank, status in enumerate(found):
        if status is not None and status[0] == "exit":
            raise SystemExit(status[1])
        if status is not None:
            raise _made(f"rank {rank} raised inside a guarded block, so this rank stops too:\n{status[1]}", *status[2:])


def _made(message: str, module: str, name: str, number: int | None) -> RankFailed:
    """A `RankFailed` that is of another class too, if this process knows it and it can be made."""
    kind: Any = sys.modules.get(module)
    for part in name.split("."):
        kind = getattr(kind, part, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or issubclass(RankFailed, kind):
        return RankFailed(message)
    try:
        both: Any = type("RankFailed", (RankFailed, kind), {"__module__": __name__, "__init__": lambda *args: None})
        made: RankFailed = both(message)
        made.args = (message,)
        if number is not None and isinstance(made, OSError):
            made.errno = number
    except Exception:
        return RankFailed(message)
    return made


def _agree(error: BaseException | None) -> None:
    """Tell all ranks whether this one failed; raise on all if any did, its own exception where it came from."""
    found = gather_objects(_describe(error))
    if error is not None:
        raise error
    _raise_there(found)


@contextmanager
def main_first() -> Iterator[None]:
    """A block that rank 0 runs first, then the first rank of each other machine, then the rest (downloads, caches).

    A block inside another one runs in the turn of the outer. Where it drew random numbers on some ranks only, all go on
    with the streams of rank 0, as the original would.

    Raises:
        RankFailed: another rank raised inside the block.
    """
    require("main_first")
    if by_itself():
        yield
        return
    meet("runtime.main_first()")
    _all_here()
    turn = 0 if state.rank == 0 else 1 if state.local_rank == 0 else 2
    for _ in range(turn):
        _agree(None)
    error: BaseException | None = None
    state.extra["in turn"] = True
    try:
        yield
    except BaseException as raised:
        error = raised
    finally:
        state.extra["in turn"] = False
    _agree(error)
    for _ in range(turn + 1, 3):
        _agree(None)
    if state.streams is not None and state.streams.depth == 0:
        now = streams.capture()
        if len(set(gather_objects(streams.digest(now)))) > 1:
            follow_main(now)


def follow_main(now: dict[str, Any]) -> None:
    """Set the random streams of all ranks to rank 0's; a collective.

    Args:
        now: what `streams.capture` returned.
    """
    theirs = from_main(now)
    if state.rank != 0:
        streams.restore(theirs)


def by_itself() -> bool:
    """Whether no other rank does the same now: there is none, or this one runs alone, in its turn, or for a sample."""
    return bool(state.world_size == 1 or state.extra.get("alone") or state.extra.get("in turn") or fetching())


def fetching() -> bool:
    """Whether this is the fetch of a sample, in a worker process or in this one: other ranks fetch other samples."""
    return bool(state.extra.get("fetching")) or get_worker_info() is not None


@uncompiled
def barrier() -> None:
    """Wait until all ranks are here.

    Raises:
        DistifyError: it stands in what only rank 0 runs.
    """
    require("barrier")
    any(False, _caller="barrier")


@uncompiled
def any(flag: Any, *, _caller: str = "any") -> bool:
    """Whether the flag is true on at least one rank: a decision that all ranks take alike.

    Args:
        flag: a bool, a number or a tensor with one element, on any device.

    Returns:
        The same on all ranks.

    Raises:
        DistifyError: it stands in what only rank 0 runs.
    """
    require(_caller)
    mine = bool(flag.detach().item()) if isinstance(flag, Tensor) else bool(flag)
    if state.world_size == 1 or fetching():
        return mine
    together(_caller)
    meet(f"runtime.{_caller}()")
    found = torch.tensor([mine], dtype=torch.uint8)
    reach(dist.all_reduce, found, dist.ReduceOp.MAX, group=state.reduce_group)
    return bool(found.item())


def all_here() -> bool:
    """Whether all ranks come to this place: outside of forwards, of what one rank does, and of other threads."""
    if by_itself() or not in_own_thread():
        return False
    return state.streams is None or state.streams.depth == 0


def in_own_thread() -> bool:
    """Whether this is the thread that called `init`; in another one collectives would get out of step."""
    return bool(state.extra.get("thread", threading.get_ident()) == threading.get_ident())
