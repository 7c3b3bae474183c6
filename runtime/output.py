"""Output happens once: what the other ranks would print, draw or record is switched off where it leaves them."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress

from . import trackers
from .launcher import main_rank


def install() -> None:
    """Switch the other ranks' output off when the runtime is imported; nothing happens on rank 0.

    `DISTIFY_ALL_RANKS=1` keeps their standard output, progress bars and log records.
    """
    if main_rank():
        return
    trackers.install()
    if os.environ.get("DISTIFY_ALL_RANKS", "") not in ("", "0"):
        return
    silence()
    logging.disable(logging.INFO)  # warnings and errors stay
    trackers.install_bars()


def silence() -> None:
    """Send descriptor 1 of other ranks to the null device: prints, libraries and child processes alike.

    Standard error stays. Called again by `init`, for a descriptor that was replaced in between.
    """
    if main_rank() or os.environ.get("DISTIFY_ALL_RANKS", "") not in ("", "0"):
        return
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 1)
    finally:
        os.close(null)
    if sys.stdout is not None:
        with suppress(Exception):  # what was buffered goes to the null device too
            sys.stdout.flush()
