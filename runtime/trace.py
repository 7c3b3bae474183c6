"""`DISTIFY_TRACE=FILE`: one JSON line per backward and per optimizer step, written by rank 0.

    {"backward": 0, "loss": 2.302585}      the global loss, unscaled
    {"step": 0, "grad_norm": 1.25}         2-norm of the global unscaled gradients, as the optimizer gets them

Both count from 0. A step that fp16 skipped carries `"skipped": true`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .state import state


class Trace:
    """The file that a run writes.

    Args:
        path: overwritten when the run starts to write.
        writes: whether this rank does.
    """

    def __init__(self, path: str, writes: bool) -> None:
        self.file = open(path, "w", encoding="utf-8") if writes else None  # noqa: SIM115 (open as long as the run)
        self.backwards = 0
        self.steps = 0

    def backward(self, loss: Tensor) -> None:
        """Note a backward of this loss."""
        self._write({"backward": self.backwards, "loss": float(loss.detach().double().sum())})
        self.backwards += 1

    def step(self, parameters: Sequence[Tensor], skipped: bool) -> None:
        """Note a step on these parameters; called on all ranks, since the norm may be a collective."""
        assert state.backend is not None
        norm = float(state.backend.clip_grad_norm_(list(parameters), math.inf, 2.0, False))
        self._write({"step": self.steps, "grad_norm": norm, **({"skipped": True} if skipped else {})})
        self.steps += 1

    def _write(self, line: dict[str, Any]) -> None:
        if self.file is not None:
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()


def unwritable() -> str | None:
    """Why this process can't write the file that was asked for; `None` if it can, or nobody asked."""
    path = os.environ.get("DISTIFY_TRACE")
    if not path:
        return None
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(path) and os.access(path if os.path.exists(path) else folder, os.W_OK):
        return None
    return f"DISTIFY_TRACE={path}: no file can be written there, name one in a folder that exists"


def trace() -> Trace | None:
    """The trace of this run, `None` if nobody asked for one."""
    path = os.environ.get("DISTIFY_TRACE")
    if not path:
        return None
    found: Trace | None = state.extra.get("trace")
    if found is None:
        found = state.extra["trace"] = Trace(path, state.rank == 0)
    return found
