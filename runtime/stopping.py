"""`stopping`: a scheduler takes the machine back with SIGTERM, and the run ends where its state can be saved.

for image, label in loader:
    ...
    runtime.step(optimizer)
    if runtime.stopping():
        runtime.save_state("run", scheduler=scheduler, epoch=epoch)
        raise SystemExit(143)
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from .collectives import together
from .guard import any as any_rank
from .state import DistifyError, require, state
from .uncompiled import uncompiled


@uncompiled
def stopping() -> bool:
    """Whether any process of the run got SIGTERM since this was first called; all ranks say so in the same call.

    From the first call on the signal does not end the process: ask once before the first step, then after each, and
    end where the answer is yes. A second signal ends the process at once. Inside an accumulation window the answer is
    no until its step has been made.

    Returns:
        The same on all ranks; true ever after.

    Raises:
        NotInitialized: `init` has not run.
        DistifyError: it stands in what only rank 0 runs, or in a thread.
    """
    run = require("stopping")
    if run.world_size > 1:
        together("stopping")
    asked = _watch()
    if run.windows is not None and run.windows.open():
        return False
    answer = asked.is_set()  # read once: a signal that comes after the ranks have agreed is the next call's
    if run.world_size > 1:
        answer = any_rank(answer, _caller="stopping")
    if answer:
        asked.set()
    return answer


def uninstall() -> None:
    """Give the signal back to whoever had it."""
    found = state.extra.pop("stop", None)
    if found is not None and signal.getsignal(signal.SIGTERM) is found[2]:
        signal.signal(signal.SIGTERM, found[1])


def _watch() -> threading.Event:
    """Take the signal, once."""
    found = state.extra.get("stop")
    if found is not None:
        asked: threading.Event = found[0]
        return asked
    if threading.current_thread() is not threading.main_thread():
        raise DistifyError("runtime.stopping() was called in a thread; Python gives signals to the main thread only.")
    event, before = threading.Event(), signal.getsignal(signal.SIGTERM)

    def handler(number: int, frame: FrameType | None) -> Any:
        if event.is_set() and not callable(before):  # asked twice: it is urgent
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        event.set()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGTERM, handler)
    state.extra["stop"] = event, before if before is not None else signal.SIG_DFL, handler
    return event
