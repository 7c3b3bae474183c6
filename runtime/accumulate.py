"""Accumulation windows: several micro-batches whose gradients make one optimizer step.

A window of K micro-batches trains as the original does on one batch that holds all of them: means weigh by rows (or by
`by=`), sums add up, terms without batch dimension count once. `backward` divides by K; `mean` and `sum` multiply their
gradients by K times the micro-batch's part of the window. Parts are known ahead from the loader where it can tell;
what was assumed and came out otherwise (a short window, divisors of `by=`) is put right when the window ends.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from .config import Config, ConfigError
from .exits import one_line
from .state import DistifyError, require
from .window import Window, newest_batch


class Windows:
    """The windows of a run: one at a time for each place in the code that opens a block.

    Args:
        config: options of the run; `accumulate` is the number of micro-batches of a window.

    Attributes:
        current: window of the block that runs, `None` outside.
        entered: whether the script has come to a block.
    """

    def __init__(self, config: Config) -> None:
        self.size = config.accumulate
        self.current: Window | None = None
        self.entered = False
        self.places: dict[Any, Window] = {}
        self.used: dict[Any, int] = {}  # by place: serial of the newest record when its last block was left
        self.given: set[Any] = set()  # places whose last block found its batch there, and fetched none

    def active(self) -> Window | None:
        """The window that weighs what is computed now; `None` where each batch makes its own step."""
        return self.current if self.size > 1 else None

    def open(self) -> bool:
        """Whether gradients have been accumulated whose step is still to come; the same on all ranks."""
        now = self.current
        if self.size > 1 and now is not None and (now.done or now.ran) and not now.stepped:
            return True
        others = (w for w in self.places.values() if w is not now and self.size > 1)
        return any(w.done and w.batch is not None and w.batch.source.live for w in others)

    def check_entered(self) -> None:
        """Windows that were asked for, of a script that was converted without them, are a matter of configuration.

        Raises:
            Misconfigured: a step is made, and no block was ever entered.
        """
        if self.size > 1 and not self.entered:
            with one_line():
                raise ConfigError(
                    f"accumulate={self.size} is set (DISTIFY_ACCUMULATE, [tool.distify] or runtime.init), but this "
                    "script was converted without accumulation windows: each batch makes a step of its own. Convert it "
                    f"with `distify rewrite --accumulate {self.size}`, or remove the option"
                )

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
        self.found: int | None = None  # serial of the newest record when the block was entered

    def __enter__(self) -> Window:
        windows = self.windows
        self.outer, window = windows.current, windows.at(self.place)
        if window is self.outer:
            raise DistifyError("runtime.accumulate(): a block is entered inside itself. Leave it first.")
        windows.current, windows.entered = window, True
        window.enter(self.last)
        newest = newest_batch()
        self.found = None if newest is None else newest.serial
        if self.found is not None and self.found != windows.used.get(self.place):
            window.plan()  # else its batch is still to be fetched, inside the block
        elif self.found is not None and self.place in windows.given and windows.size > 1:
            windows.current = self.outer
            raise DistifyError(
                "runtime.accumulate(): entered twice for one batch, as in a loop over several models inside the loop "
                "over batches. Each would need a window of its own: give each its own loop, or train without "
                "accumulation and with a larger batch size."
            )
        return window

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        windows = self.windows
        window, windows.current = windows.current, self.outer
        newest = newest_batch()
        if newest is not None:
            windows.used[self.place] = newest.serial
            fetched = newest.serial != self.found
            (windows.given.discard if fetched else windows.given.add)(self.place)
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
