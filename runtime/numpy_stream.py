"""NumPy's default stream, set aside while a slice is fetched and put back: microseconds, in each batch.

`numpy.random.get_state` and `set_state` copy 624 numbers through Python, a tenth of a millisecond together. The memory
of the generator, whose place NumPy tells, is read and written in one piece. What it does not hold is the second
normal number of a pair, kept for the next call: whether there is one is read where a trial has found the flag, and
wherever there is, the slow functions are used.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

KEYS = 624
SIZE = 4 * KEYS + 4  # a Mersenne twister: its keys, then the position among them
FLAG = ctypes.sizeof(ctypes.c_int)


class NumpyStream:
    """The stream of `numpy.random`.

    Args:
        random: `numpy.random`.

    Attributes:
        held: what `get_state` returned when the memory was `memory`.
        left: whether a normal number was left over then.
    """

    def __init__(self, random: Any) -> None:
        self.random = random
        self.generator: Any = None
        self.address: int | None = None  # of the generator's memory; `None` where that isn't laid out as expected
        self.flag = 0
        self.held: Any = None
        self.left = False
        self.memory = b""

    def begin(self, seed: int) -> None:
        """Remember the state, and go on from a seed."""
        self._find()
        if self.address is None:
            self.held = self.random.get_state()
        else:
            memory, left = ctypes.string_at(self.address, SIZE), any(ctypes.string_at(self.flag, FLAG))
            if left or self.left or memory != self.memory:
                self.held, self.left, self.memory = self.random.get_state(), left, memory
        self.random.seed(seed)

    def end(self) -> None:
        """Put the state back."""
        if self.address is None or self.left or self._generator() is not self.generator:
            self.random.set_state(self.held)
        else:
            self.random.seed(0)  # forgets the second number of a pair that was drawn since
            ctypes.memmove(self.address, self.memory, SIZE)

    def _generator(self) -> Any:
        find = getattr(self.random, "get_bit_generator", None)  # since NumPy 1.24
        return None if find is None else find()

    def _find(self) -> None:
        """The places in memory, looked up again when somebody set another generator."""
        found = self._generator()
        if found is self.generator and found is not None:
            return
        self.generator, self.address, self.left, self.memory = found, None, False, b""
        address = getattr(getattr(found, "ctypes", None), "state_address", None)
        owner: Any = getattr(self.random.get_state, "__self__", None)
        offset = flag_offset(owner.__class__)
        kind, keys, position, *_ = self.random.get_state()
        if not isinstance(address, int) or offset is None or kind != "MT19937" or len(keys) != KEYS:
            return
        if ctypes.string_at(address, SIZE) == keys.tobytes() + bytes(ctypes.c_int(position)):
            self.address, self.flag = address, id(owner) + offset


@lru_cache(maxsize=None)
def flag_offset(kind: Any) -> int | None:
    """Where an object of `numpy.random.RandomState` says whether a normal number is left over; `None`: not found.

    The only place that is 1 after each odd draw, and 0 after each even one.
    """
    if kind.__name__ != "RandomState" or kind.__module__ != "numpy.random.mtrand":
        return None
    trial = kind(0)
    looks = []
    for _ in range(4):
        trial.standard_normal()
        looks.append(ctypes.string_at(id(trial), kind.__basicsize__))
    wanted = [bytes(ctypes.c_int(odd)) for odd in (1, 0, 1, 0)]
    places = range(0, kind.__basicsize__ - FLAG + 1, FLAG)
    found = [at for at in places if [look[at : at + FLAG] for look in looks] == wanted]
    return found[0] if len(found) == 1 else None
