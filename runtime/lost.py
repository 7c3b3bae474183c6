"""A collective that fails says which line waited, and what is known of the other ranks.

A rank that ends by an error, or at the end of its script, leaves a word in the store through which the processes met.
So does one whose collective fails; it waits for a moment for the words of the others, since they mostly time out
together. Nothing is written as long as all goes well.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

import torch.distributed as dist

from . import places
from .state import DistifyError, state

PATIENCE = 2.0  # seconds for the words of other ranks
KEY = "distify/word/"
END = "distify/end/"
CLOSED = ("closed by peer", "reset by peer", "Broken pipe", "Connection refused", "remote process exited")


class Lost(DistifyError):
    """A collective failed: another rank has ended, hangs, or makes other calls than this one."""


def reach(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of `torch.distributed`, or wait for its work.

    Raises:
        Lost: it failed; the message names the line of the script, and what the other ranks do.
    """
    try:
        return function(*args, **kwargs)
    except DistifyError:
        raise
    except RuntimeError as error:
        if not _of_torch(error):
            raise
        raise Lost(explain(error)) from None  # torch's own is quoted in it


def _of_torch(error: BaseException) -> bool:
    """Whether a collective raised it, and no handler of a signal that came meanwhile (a worker of a loader died)."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file = "" if trace is None else trace.tb_frame.f_code.co_filename
    return file == __file__ or file.startswith(os.path.dirname(dist.__file__))


def from_network(error: BaseException) -> bool:
    """Whether a collective failed that torch or a library issued by itself."""
    kinds = tuple(k for k in (getattr(dist, name, None) for name in ("DistBackendError", "DistNetworkError")) if k)
    text = str(error)
    if isinstance(error, DistifyError):
        return False
    return isinstance(error, kinds) or (isinstance(error, RuntimeError) and ("gloo/" in text or "NCCL" in text))


def explain(error: BaseException, trace: TracebackType | None = None) -> str:
    """What failed, where, and what is known of the other ranks.

    Args:
        error: what torch raised.
        trace: its traceback, if it is no longer being raised here.
    """
    call, where = places.entry(trace), places.described(places.lines(trace))
    here = f"{call} at {where}" if call else where
    text = str(error).strip().partition("\n")[0]
    leave_word(f"waited in {here}")
    if any(sign in text for sign in CLOSED):
        what = f"rank {state.rank} lost the others in {here}: a connection was closed."
    elif "imed out" in text or "imeout" in text:
        what = f"rank {state.rank} waited in vain for the others in {here}, as long as DISTIFY_TIMEOUT allows."
    else:
        what = f"rank {state.rank} could not exchange values in {here}."
    return (
        f"{what}{_others()} All ranks must make the same calls in the same order; with DISTIFY_DEBUG=1 they compare "
        f"each before it is made. ({text[:200]})"
    )


def leave_word(text: str) -> None:
    """Let the other ranks know what became of this one; never waits for long."""
    if state.world_size == 1 or "word" in state.extra:
        return
    state.extra["word"] = text
    store, key = _store(), f"{KEY}{state.rank}"
    if store is None:
        return

    def write() -> None:
        with suppress(Exception):
            store.set(key, text)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    thread.join(PATIENCE)


def arrive(limit: float) -> bool:
    """Wait at the end of the script until the other ranks have come there too, or have left word of what they did.

    Args:
        limit: seconds.

    Returns:
        Whether all have.
    """
    store, rest = _store(), set(range(state.world_size)) - {state.rank}
    until = time.monotonic() + limit

    def look() -> None:
        with suppress(Exception):  # rank 0, which keeps the store, has seen all and is gone
            store.set(f"{END}{state.rank}", "")
            while rest and time.monotonic() < until:
                for rank in list(rest):
                    if store.check([f"{END}{rank}"]) or store.check([f"{KEY}{rank}"]):
                        rest.discard(rank)
                time.sleep(0.01)
            return
        rest.clear()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(limit + PATIENCE)
    return not rest


def _others() -> str:
    """What the other ranks left word of."""
    words: dict[int, str] = {}
    thread = threading.Thread(target=_collect, args=(words, time.monotonic() + PATIENCE), daemon=True)
    thread.start()
    thread.join(PATIENCE + 1.0)
    told = "".join(f" Rank {rank} {words[rank]}." for rank in sorted(words))
    silent = [str(rank) for rank in range(state.world_size) if rank != state.rank and rank not in words]
    if not silent:
        return told
    names = f"Rank {silent[0]}" if len(silent) == 1 else f"Ranks {', '.join(silent[:16])}"
    return f"{told} {names} left no word: killed (no memory left?), ended by an error of its own, or busy elsewhere."


def _collect(words: dict[int, str], until: float) -> None:
    store = _store()
    with suppress(Exception):
        while store is not None and len(words) < state.world_size - 1:
            for rank in range(state.world_size):
                key = f"{KEY}{rank}"
                if rank != state.rank and rank not in words and store.check([key]):
                    words[rank] = store.get(key).decode()
            if time.monotonic() > until:
                return
            time.sleep(0.05)


def _store() -> Any:
    """The store of the run; `None` where processes were started in another way, or it may hold an older run's words."""
    if not (dist.is_available() and dist.is_initialized() and state.owns_group) or not in_own_process():
        return None
    with suppress(Exception):
        return dist.distributed_c10d._get_default_store()
    return None


def in_own_process() -> bool:
    """Whether this is the process that called `init`, and no worker that was forked from it."""
    return bool(state.extra.get("process", os.getpid()) == os.getpid())
