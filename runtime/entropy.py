"""Generators that nobody seeds take their seed from the operating system, so each rank would get another one.

Under a launcher `random.Random()`, `random.seed()`, `numpy.random.default_rng()`, `numpy.random.RandomState()`,
`torch.seed()` get a seed made of a number that rank 0 drew, the place in the code that asks, and how often it has
asked: equal on all ranks, whatever other code does on one of them. Worker processes of a loader and the fetch of
a slice keep the operating system's, since there ranks must differ.
"""

from __future__ import annotations

import os
import random
import sys
import sysconfig
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import get_worker_info

from .lost import reach
from .state import state
from .streams import mix, numpy_random

STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
SITE = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def install() -> None:
    """Replace the sources of entropy; needs the process group. Undone by `uninstall`."""
    if "entropy" in state.extra:
        return
    base = torch.tensor([int.from_bytes(os.urandom(7), "little")])
    reach(dist.broadcast, base, src=0, group=state.reduce_group)
    state.extra["entropy"] = _Entropy(int(base.item()), os.getpid())
    undo: list[Callable[[], None]] = []
    state.extra["entropy_undo"] = undo
    _patch(undo, random.Random, "seed", _python_seed(random.Random.seed))
    _patch(undo, random, "seed", _module_seed(random.seed))
    _patch(undo, torch, "seed", _torch_seed)
    bits: Any = getattr(numpy_random(), "bit_generator", None)
    if hasattr(bits, "randbits"):  # where NumPy's SeedSequence takes its entropy from
        _patch(undo, bits, "randbits", _numpy_bits(bits.randbits))


def uninstall() -> None:
    """Give the operating system's entropy back."""
    for action in reversed(state.extra.pop("entropy_undo", [])):
        action()
    state.extra.pop("entropy", None)


class _Entropy:
    """A number shared by all ranks, and how often each place in the code has asked for a seed."""

    def __init__(self, base: int, process: int) -> None:
        self.base = base
        self.process = process
        self.asked: dict[tuple[CodeType, int], int] = {}

    def seed(self) -> int | None:
        """A seed that is equal on all ranks; `None` where they must differ, or the standard library asks."""
        if os.getpid() != self.process or get_worker_info() is not None:
            return None
        if state.streams is not None and state.streams.depth > 0:
            return None
        frame = _caller()
        if frame is None:
            return None
        place = frame.f_code, frame.f_lineno
        self.asked[place] = self.asked.get(place, 0) + 1
        name = f"{frame.f_globals.get('__name__')}:{frame.f_code.co_name}:{frame.f_lineno}"
        return mix(self.base, *name.encode(), self.asked[place])


def _caller() -> FrameType | None:
    """The frame that asks, outside of this file; `None` if it belongs to the standard library."""
    frame: FrameType | None = sys._getframe(1)
    own = (__file__, random.__file__)
    while frame is not None and frame.f_code.co_filename in own:
        frame = frame.f_back
    if frame is None:
        return None
    file = frame.f_code.co_filename
    inside = file.startswith((STDLIB, "<frozen")) and not any(part in file for part in SITE)
    return None if inside else frame


def _seed() -> int | None:
    entropy = state.extra.get("entropy")
    return entropy.seed() if isinstance(entropy, _Entropy) else None


def _patch(undo: list[Callable[[], None]], owner: Any, name: str, value: Any) -> None:
    before = getattr(owner, name)
    setattr(owner, name, value)
    undo.append(lambda: setattr(owner, name, before))


def _python_seed(original: Callable[..., None]) -> Callable[..., None]:
    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        original(self, _seed() if a is None else a, version)

    return seed


def _module_seed(original: Callable[..., None]) -> Callable[..., None]:
    def seed(a: Any = None, version: int = 2) -> None:
        original(_seed() if a is None else a, version)

    return seed


def _torch_seed() -> int:
    """`torch.seed()` with a seed that all ranks agree on."""
    seed = _seed()
    if seed is None:
        seed = int.from_bytes(os.urandom(7), "little")
    torch.manual_seed(seed)
    return seed


def _numpy_bits(original: Callable[[int], int]) -> Callable[[int], int]:
    def randbits(count: int) -> int:
        seed = _seed()
        if seed is None:
            return original(count)
        value = 0
        for position in range(0, count, 63):
            value |= mix(seed, position) << position
        return value & ((1 << count) - 1)

    return randbits
