"""A rank that fails must not leave the others waiting: it prints its traceback and ends at once."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import traceback
from contextlib import suppress
from types import TracebackType

from . import saving
from .lost import arrive, explain, from_network, leave_word
from .places import described, lines
from .state import state

GRACE = 10  # seconds that the main rank gets for its exit handlers (trackers flush there) after an uncaught exception


def install() -> None:
    """End this process promptly after an uncaught exception, so that the launcher ends the others."""
    if sys.excepthook is not _end:
        state.extra["excepthook"] = sys.excepthook
        sys.excepthook = _end
    if not faulthandler.is_enabled():  # NCCL ends the process from a thread of its own: only this tells the line then
        with suppress(Exception):
            faulthandler.enable()
            state.extra["faulthandler"] = True


def uninstall() -> None:
    """Set the interpreter's own hook back."""
    if sys.excepthook is _end:
        sys.excepthook = state.extra.get("excepthook", sys.__excepthook__)
    if state.extra.pop("faulthandler", False):
        faulthandler.disable()


def failed() -> bool:
    """Whether this process is ending because of an uncaught exception."""
    return bool(state.extra.get("failed"))


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    state.extra["failed"] = True
    try:
        sys.stderr.write(f"distify: rank {state.rank} of {state.world_size} failed:\n")
        state.extra.get("excepthook", sys.__excepthook__)(kind, error, trace)
        if from_network(error):
            sys.stderr.write(f"distify: {explain(error, trace)}\n")
        place = described(lines(trace))
        with suppress(KeyboardInterrupt):
            saving.wait(
                state
            )  # what the script has asked for; the other ranks write it too as long as this one is here
        leave_word(f"failed with {traceback.format_exception_only(kind, error)[-1].strip()[:300]} at {place}")
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        if state.rank != 0 or not hasattr(signal, "setitimer"):
            os._exit(1)
        # Exit handlers, worker processes or a pending collective may hang; the alarm's default action ends them all.
        with suppress(ValueError):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, GRACE)


def wait_for_all() -> None:
    """Let all ranks arrive before the group is destroyed; a rank that is gone is not waited for longer than `GRACE`.

    A rank that is elsewhere in the script then loses this one, and says so.
    """
    if state.reduce_group is not None and not arrive(GRACE):
        leave_word("has come to the end of its script")
