"""Activation checkpointing: repeated blocks keep their inputs, and a backward computes the rest of what it needs anew.

`prepare` puts a function in the place of the `forward` of each repeated block; modules, classes and keys of state dicts
stay what they are. A recomputation is to be the forward that it repeats: besides torch's generators, which torch's own
checkpointing sets back, Python's and NumPy's are (layers that are dropped at random), and so are buffers that a forward
in train mode changes. What it writes into buffers goes away with it: running statistics move once.

Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016).
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import checkpoint

from .backends.fsdp_plan import repeated_blocks
from .state import state
from .streams import numpy_random


def install(modules: Sequence[nn.Module]) -> None:
    """Let the repeated blocks of models recompute; last of all, around what a backend put into them."""
    for module in modules:
        root = getattr(module, "_orig_mod", module)  # what torch.compile wraps
        blocks = repeated_blocks(root)
        for block in blocks:
            if not isinstance(vars(block).get("forward"), Recomputed):
                block.__dict__["forward"] = Recomputed(block)
        if not blocks and state.rank == 0:
            warnings.warn(
                f"checkpoint_activations: {type(root).__name__} has no repeated blocks (modules of one class, made of "
                "others, side by side in an nn.ModuleList or nn.Sequential), so nothing of it is recomputed. Leave the "
                "option out, or put the blocks into a list.",
                stacklevel=3,
            )


class Recomputed:
    """A block's forward, run so that its backward runs it again.

    An object, and not a function, so that a deep copy of the block has one of its own.

    Attributes:
        own: what stood in the instance's place of `forward`; copies and files get it back.
        moving: names of buffers that a forward was seen to change; `None` before the first.
    """

    stands_in = True

    def __init__(self, block: nn.Module) -> None:
        self.block = block
        self.own: Any = vars(block).get("forward")
        self.moving: set[str] | None = None
        self.running = _running(block)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        forward: Callable[..., Any] = self.own
        if forward is None:
            forward = type(self.block).forward.__get__(self.block)
        if not torch.is_grad_enabled() or running_backward():
            return forward(*args, **kwargs)
        if torch.compiler.is_compiling():
            return checkpoint(forward, *args, use_reentrant=False, **kwargs)
        again = Again(self.block, None if self.moving is None else self.moving | self.running)
        seen = again.versions() if self.moving is None or self.block.training else None
        assert state.streams is not None
        with state.streams.private():  # also where another method than the model's forward calls the block
            result = checkpoint(forward, *args, use_reentrant=False, context_fn=again.contexts, **kwargs)
        if seen is not None:
            moved = {name for name, version in again.versions().items() if seen.get(name) != version}
            self.moving = moved | (self.moving or set())
            again.keep(self.moving | self.running)
        return result


class Again(AbstractContextManager[None]):
    """Around a recomputation: generators and buffers as they were before the forward.

    Args:
        block: what is run again.
        moving: names of the buffers to keep; `None` for all.
    """

    def __init__(self, block: nn.Module, moving: set[str] | None) -> None:
        self.block = block
        self.python, self.numpy = random.getstate(), self._numpy()
        self.buffers = {n: b.clone() for n, b in block.named_buffers() if moving is None or n in moving}
        self.held: list[tuple[dict[str, Any], str, Tensor]] = []
        self.later: tuple[Any, Any] = (None, None)

    @staticmethod
    def _numpy() -> Any:
        numpy = numpy_random()
        return None if numpy is None else numpy.get_state()

    def versions(self) -> dict[str, tuple[int, int]]:
        """What changes when a buffer is written to, or replaced."""
        return {name: (id(buffer), buffer._version) for name, buffer in self.block.named_buffers()}

    def keep(self, names: set[str]) -> None:
        """Let go of the buffers that no forward changes."""
        self.buffers = {name: buffer for name, buffer in self.buffers.items() if name in names}

    def contexts(self) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        """Around the forward, and around what repeats it."""
        return nullcontext(), self

    def __enter__(self) -> None:
        self.later = (random.getstate(), self._numpy())
        _set(self.python, self.numpy)
        for name, before in self.buffers.items():
            path, _, last = name.rpartition(".")
            owner: dict[str, Any] = self.block.get_submodule(path)._buffers
            self.held.append((owner, last, owner[last]))
            owner[last] = before.clone()  # a graph may be gone through again

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for owner, last, buffer in self.held:
            owner[last] = buffer
        self.held.clear()
        _set(*self.later)


def _running(block: nn.Module) -> set[str]:
    """Running statistics: torch's kernels change them and don't count it as a change."""
    norms = ((path, module) for path, module in block.named_modules() if isinstance(module, _NormBase))
    return {f"{path}.{name}".lstrip(".") for path, module in norms for name in module._buffers}


def running_backward() -> bool:
    """Whether a backward runs: a forward in it is a recomputation."""
    return torch._C._current_graph_task_id() != -1


def _set(python: Any, numpy: Any) -> None:
    random.setstate(python)
    if numpy is not None:
        module = numpy_random()
        assert module is not None
        module.set_state(numpy)
