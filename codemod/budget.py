"""The time that the analysis of a program may take, so that a hook never hangs on one file among a thousand.

Processor time is counted, so that what is analysed in time on one day is so on a busy one. The passes of the analysis
ask at each statement and rules one by one: no signal and no thread is needed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Exceeded(Exception):
    """A program takes longer than it may."""


class Budget:
    """Seconds of processor time from now on.

    Args:
        seconds: how many.
        clock: tells the time used so far, in seconds.
        every: how many times it is asked before it looks at the clock, which is a call of the system.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.process_time, every: int = 64) -> None:
        self.seconds, self.clock, self.every = seconds, clock, every
        self.asked = 0
        self.end = clock() + seconds

    def check(self) -> None:
        """Raises `Exceeded` once the time is used up."""
        self.asked += 1
        if self.asked % self.every == 0 and self.clock() > self.end:
            raise Exceeded


UNLIMITED = Budget(math.inf)
