"""Accumulation windows: several micro-batches whose gradients make one optimizer step.

A window of K micro-batches trains as the original does on one batch that holds all of them: means weigh by rows (or by
`by=`), sums add up, terms without batch dimension count once. `backward` divides by K; `mean` and `sum` multiply their
gradients by K times the micro-batch's part of the window. Parts are known ahead from the loader where it can tell;
what was assumed and came out otherwise (a short window, divisors of `by=`) is put right when the window ends.
"""

from __future__ import annotations

import sys
import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from .batches import Batch
from .config import Config
from .state import DistifyError, require, state

ROUNDING = 1e-9  # factors nearer to 1 than this are 1


@dataclass(eq=False)
class Window:
    """One accumulation window, as the block of `accumulate()` sees it.

    Attributes:
        size: micro-batches that it is planned to hold, K.
        rows: global rows that it is planned to hold, `None` before its first record.
        batch: record of its latest micro-batch.
        done: micro-batches of earlier blocks that ran a backward.
        seen: their rows.
        ran, stepped: what the block that runs has done.
        overdue: the block that should have ended it was left without a backward, so it goes on.
        sums, means: whether such reductions took part in its gradients.
        divisors: for every `mean(by=)` in program order: reference and total so far, 0-dim.
        corrected: factor that its gradients hold already, see `correction`.
    """

    size: int
    rows: int | None = None
    batch: Batch | None = None
    done: int = 0
    seen: int = 0
    last: bool | None = None
    ran: bool = False
    stepped: bool = False
    overdue: bool = False
    sums: bool = False
    means: bool = False
    divisors: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    corrected: float = 1.0
    _slot: int = 0

    @property
    def starts(self) -> bool:
        """Whether nothing has been accumulated yet: the place for `zero_grad`."""
        return self.done == 0

    @property
    def ends(self) -> bool:
        """Whether this micro-batch completes the window: the place for clipping and `step`."""
        batch = self.plan()
        last = self.last if self.last is not None else batch is not None and bool(batch.last)
        return last or self.done + 1 >= self.size

    def enter(self, last: bool | None) -> None:
        """Begin the block of one micro-batch."""
        self.last, self.ran, self.stepped, self._slot = last, False, False, 0

    def leave(self) -> bool:
        """End the block; true if the window is complete.

        A block that should end it but ran no backward (a `continue` before it) leaves the window open: the next
        micro-batch ends it, and nothing that was accumulated is lost.
        """
        ends = self.ends
        if self.ran:
            self.done += 1
            self.seen += 0 if self.batch is None else self.batch.total
        self.overdue = ends and not (self.ran or self.stepped)
        return ends and not self.overdue

    def plan(self) -> Batch | None:
        """The record of this block's micro-batch; at the first one, decides how much the window will hold."""
        newest = newest_batch()
        if newest is None:
            return self.batch
        self.batch = newest
        if self.rows is None:
            ahead = newest.ahead(self.size)
            if ahead:
                self.size, self.rows = len(ahead), sum(ahead)
            else:
                self.rows = self.size * newest.total
        return newest

    def mean_weight(self, batch: Batch) -> float:
        """What the gradient of a mean over rows is multiplied by: K times the batch's part of the window's rows."""
        self.plan()
        self.means = True
        return self.size * batch.total / self.rows if self.rows else 1.0

    def sum_weight(self) -> float:
        """What the gradient of a sum is multiplied by: K."""
        self.plan()
        self.sums = True
        return float(self.size)

    def divisor(self, total: Tensor) -> Tensor:
        """Note the global divisor of the next `mean(by=)`, 0-dim; returns the window's reference for it, positive."""
        total = total.detach()
        slot, self._slot = self._slot, self._slot + 1
        if slot == len(self.divisors):
            reference = torch.where(total > 0, total, torch.ones_like(total))
            self.divisors.append((reference, total))
        else:
            reference, so_far = self.divisors[slot]
            self.divisors[slot] = (reference, so_far + total)
        return reference

    def correction(self) -> float:
        """Factor that puts the window's gradients right when it ends: what was assumed over what it really held."""
        held, seen = self.done + 1, self.seen + (0 if self.batch is None else self.batch.total)
        factors = []
        if self.means:
            factors.append(self.rows / seen if self.rows and seen else 1.0)
        if self.divisors:
            pairs = torch.stack([torch.stack([r.double(), t.double()]) for r, t in self.divisors]).tolist()
            factors += [self.size * reference / total if total else 1.0 for reference, total in pairs]
        if self.sums:
            factors.append(1.0)
        if not factors:
            factors.append(self.size / held)
        if max(factors) - min(factors) > 1e-6 * max(factors):
            warnings.warn(
                f"accumulation: the terms of this loss weigh the {held} micro-batches of a window differently (factors "
                f"{', '.join(f'{f:.6g}' for f in factors)}), which is known only at its end; the first is used and the "
                "others are approximate. Divide sums by a count that is known ahead, or train without --accumulate.",
                stacklevel=4,
            )
        return 1.0 if abs(factors[0] - 1.0) < ROUNDING else factors[0]


def newest_batch() -> Batch | None:
    """The record made last among the sources in use."""
    batches = state.batches
    found = [s.latest for s in batches.sources if (s.live or s.loose) and s.latest is not None] if batches else []
    return max(found, key=lambda batch: batch.serial) if found else None


class Windows:
    """The windows of a run: one at a time for each place in the code that opens a block.

    Args:
        config: options of the run; `accumulate` is the number of micro-batches of a window.

    Attributes:
        current: window of the block that runs, `None` outside.
    """

    def __init__(self, config: Config) -> None:
        self.size = config.accumulate
        self.current: Window | None = None
        self.places: dict[Any, Window] = {}
        self.used: dict[Any, int] = {}  # by place: serial of the newest record when its last block was left

    def active(self) -> Window | None:
        """The window that weighs what is computed now; `None` where each batch makes its own step."""
        return self.current if self.size > 1 else None

    def at(self, place: Any) -> Window:
        """The open window of a place, or a new one.

        A window whose loop was left early, by `break`, is dropped: its micro-batches belong to no step.
        """
        found = self.places.get(place)
        if found is not None:
            source = None if found.batch is None else found.batch.source
            if source is None or source.live or found.overdue:
                return found
        self.places[place] = made = Window(self.size)
        return made


class _Block(AbstractContextManager[Window]):
    """The context that `accumulate` returns; entered once."""

    def __init__(self, windows: Windows, place: Any, last: bool | None) -> None:
        self.windows, self.place, self.last = windows, place, last
        self.outer: Window | None = None

    def __enter__(self) -> Window:
        windows = self.windows
        self.outer, window = windows.current, windows.at(self.place)
        if window is self.outer:
            raise DistifyError("runtime.accumulate(): a block is entered inside itself. Leave it first.")
        windows.current = window
        window.enter(self.last)
        newest = newest_batch()
        if newest is not None and newest.serial != windows.used.get(self.place):
            window.plan()  # else its batch is still to be fetched, inside the block
        return window

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        windows = self.windows
        window, windows.current = windows.current, self.outer
        newest = newest_batch()
        if newest is not None:
            windows.used[self.place] = newest.serial
        if kind is not None or (window is not None and window.leave()):
            windows.places.pop(self.place, None)


def accumulate(last: bool | None = None) -> AbstractContextManager[Window]:
    """Block of one micro-batch; `with runtime.accumulate() as window:`.

    `window.starts` is true where gradients are cleared, `window.ends` where they are clipped and stepped with: there
    they are the global gradients of the whole window. Without `--accumulate` both are always true. A window also ends
    with the last batch of its loader, averaged over what it holds. A `continue` before `backward` skips a micro-batch
    without losing the window.

    Args:
        last: whether this is the last micro-batch, for batches that no loader made; `None` where that isn't known.

    Returns:
        A context that yields the window.

    Raises:
        NotInitialized: `init` has not run.
    """
    windows = require("accumulate").windows
    assert windows is not None
    frame = sys._getframe(1)
    return _Block(windows, (frame.f_code, frame.f_lineno), last)
