"""Functions that `torch.compile` leaves alone where a compiled function of the script calls them.

What they do is Python with effects: collectives, which all ranks must run as often, and notes of what a step has done.
`torch.compiler.disable` does the same, but imports the compiler, which takes longer than all of torch; most scripts
never need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch._C import _dynamo  # the part of the compiler that torch has always loaded

Function = TypeVar("Function", bound=Callable[..., Any])


def uncompiled(function: Function) -> Function:
    """End a graph where a function is called, and compile nothing that it runs.

    Args:
        function: of the runtime; the same object is returned.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]  # not to be traced into
    frames: Any = _dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):  # since torch 2.8
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    return function
