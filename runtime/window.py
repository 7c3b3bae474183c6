"""One accumulation window: how much it holds, how its micro-batches weigh, and what is put right at its end."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .records import Batch
from .state import state

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
        quotients: sums took part that are divided by a count (`averaged`), and weigh as that does.
        divisors: for every `mean(by=)` in program order: reference and total so far, 0-dim.
        weighed: those that took part in its gradients.
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
    quotients: bool = False
    divisors: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    weighed: set[int] = field(default_factory=set)
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
        return self.size * batch.total / self.rows if self.rows else 1.0

    def uses_mean(self) -> None:
        """A mean over rows takes part in the window's gradients."""
        self.means = True

    def uses_sum(self) -> None:
        """A sum takes part in the window's gradients."""
        self.sums = True

    def sum_weight(self) -> float:
        """What the gradient of a sum is multiplied by: K."""
        self.plan()
        return float(self.size)

    def reference(self, total: Tensor) -> tuple[Tensor, Callable[[], None]]:
        """What the next `mean(by=)` divides by in this window instead of its own divisor, positive and 0-dim.

        Args:
            total: its global divisor in this micro-batch, 0-dim.

        Returns:
            The reference, and what its backward must call, once: it adds the divisor to those of the window.
        """
        total = total.detach()
        slot, self._slot = self._slot, self._slot + 1
        if slot not in self.divisors:
            positive = torch.where(total > 0, total, torch.ones_like(total))
            self.divisors[slot] = (positive, torch.zeros_like(total))
        reference = self.divisors[slot][0]

        def used() -> None:
            self.divisors[slot] = (reference, self.divisors[slot][1] + total)
            self.weighed.add(slot)

        return reference, used

    def correction(self) -> float:
        """Factor that puts the window's gradients right when it ends: what was assumed over what it really held."""
        held, seen = self.done + 1, self.seen + (0 if self.batch is None else self.batch.total)
        factors = []
        if self.means:
            factors.append(self.rows / seen if self.rows and seen else 1.0)
        if self.weighed:
            used = [self.divisors[slot] for slot in sorted(self.weighed)]
            pairs = torch.stack([torch.stack([r.double(), t.double()]) for r, t in used]).tolist()
            factors += [self.size * reference / total if total else 1.0 for reference, total in pairs]
        if self.sums and not self.quotients:
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
