"""NumPy's default stream, set aside while a slice is fetched and put back: microseconds, in each batch.

`numpy.random.get_state` and `set_state` copy 624 numbers through Python, a tenth of a millisecond together. The memory
of the generator, whose place NumPy tells, is read and written in one piece. What it does not hold is the second
normal number of a pair, kept for the next call: wherever there may be one, the slow functions are used.
"""

from __future__ import annotations

import ctypes
from typing import Any

KEYS = 624
SIZE = 4 * KEYS + 4  # a Mersenne twister: its keys, then the position among them


class NumpyStream:
    """The stream of `numpy.random`.

    Args:
        random: `numpy.random`.

    Attributes:
        held: what `get_state` returned when the memory was `memory`.
    """

    def __init__(self, random: Any) -> None:
        self.random = random
        self.generator: Any = None
        self.address: int | None = None  # of the generator's memory; `None` where that isn't laid out as expected
        self.held: Any = None
        self.memory = b""

    def begin(self, seed: int) -> None:
        """Remember the state, and go on from a seed."""
        self._find()
        memory = b"" if self.address is None else ctypes.string_at(self.address, SIZE)
        if self.address is None or memory != self.memory or self._pair():
            self.held, self.memory = self.random.get_state(), memory
        self.random.seed(seed)

    def end(self) -> None:
        """Put the state back."""
        if self.address is None or self._pair() or self._generator() is not self.generator:
            self.random.set_state(self.held)
        else:
            self.random.seed(0)  # forgets the second number of a pair that was drawn since
            ctypes.memmove(self.address, self.memory, SIZE)

    def _pair(self) -> bool:
        """Whether the held state has a normal number left over: using it leaves no trace in the memory."""
        return bool(self.held[3])

    def _generator(self) -> Any:
        find = getattr(self.random, "get_bit_generator", None)  # since NumPy 1.24
        return None if find is None else find()

    def _find(self) -> None:
        """The place of the generator's memory, looked up again when somebody set another generator."""
        found = self._generator()
        if found is self.generator and found is not None:
            return
        self.generator, self.address, self.memory = found, None, b""
        address = getattr(getattr(found, "ctypes", None), "state_address", None)
        kind, keys, position, *_ = self.random.get_state()
        if not isinstance(address, int) or kind != "MT19937" or len(keys) != KEYS:
            return
        if ctypes.string_at(address, SIZE) == keys.tobytes() + bytes(ctypes.c_int(position)):
            self.address = address
