"""Generators of random numbers that a function keeps for itself: `rng = np.random.default_rng(5)` beside it."""

from __future__ import annotations

import functools
import random
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch


def held(function: Any, depth: int = 3) -> Iterator[Any]:
    """What a function reaches by its globals, its closure, its defaults, its object, or functions of the program."""
    if isinstance(function, functools.partial):
        found = [function.func, *function.args, *function.keywords.values()]
    elif isinstance(function, types.MethodType):
        found = [function.__func__, *vars(function.__self__).values()] if hasattr(function.__self__, "__dict__") else []
    elif isinstance(function, types.FunctionType):
        space = function.__globals__
        found = [space[name] for name in function.__code__.co_names if name in space]
        found += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # not bound yet
                found.append(cell.cell_contents)
    else:
        found = [*getattr(function, "__dict__", {}).values(), type(function).__dict__.get("__call__")]
    for item in found:
        yield item
        called = isinstance(item, (functools.partial, types.MethodType, types.FunctionType))
        if depth and called and not getattr(item, "__module__", "").startswith("torch"):
            yield from held(item, depth - 1)


def keep(function: Any) -> Callable[[], None]:
    """Notes the state of every generator that a function keeps; what it returns sets them back."""
    kept = {id(item): (item, get_state(item)) for item in held(function) if get_state(item) is not None}

    def restore() -> None:
        for item, state in kept.values():
            set_state(item, state)

    return restore


def get_state(item: Any) -> Any:
    """The state of a generator, `None` if this is none."""
    if isinstance(item, random.Random):
        return item.getstate()
    if isinstance(item, torch.Generator):
        return item.get_state().clone()
    if type(item).__module__.startswith("numpy.random"):
        if hasattr(item, "bit_generator"):
            return item.bit_generator.state
        if hasattr(item, "get_state"):
            return item.get_state()
    return None


def set_state(item: Any, state: Any) -> None:
    """Set a generator to what `get_state` returned."""
    if isinstance(item, random.Random):
        item.setstate(state)
    elif hasattr(item, "bit_generator"):
        item.bit_generator.state = state
    else:
        item.set_state(state)
