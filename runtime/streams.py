"""Replicated and private random streams.

Outside the forward of a prepared module all ranks hold the same streams, so that shuffles, noise and decisions agree.
Inside it, and while a batch is fetched in this process, torch's stream is private to the rank, so that dropout and
augmentation differ. On one process there are no private streams: the original's draws, exactly.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from .numpy_stream import NumpyStream
from .state import refuse_opened, state
from .uncompiled import uncompiled

MASK = (1 << 64) - 1
DRAWING = (nn.modules.dropout._DropoutNd, nn.RNNBase, nn.MultiheadAttention, nn.RReLU)


def mix(*values: int) -> int:
    """Whole numbers hashed to 63 bits, equal on every machine (splitmix64's finaliser, Steele et al. 2014)."""
    state = 0
    for value in values:
        state = (state + (value & MASK) + 0x9E3779B97F4A7C15) & MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
        state ^= state >> 31
    return state >> 1


def numpy_random() -> Any:
    """`numpy.random` where NumPy is loaded, else `None`: what nobody imported has not been drawn from."""
    return getattr(sys.modules.get("numpy"), "random", None)


def capture() -> dict[str, Any]:
    """The state of every default stream of this process: torch (CPU, current CUDA device), Python, NumPy."""
    current: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        current["cuda"] = torch.cuda.get_rng_state()
    numpy = numpy_random()
    if numpy is not None:
        current["numpy"] = numpy.get_state()
    return current


def restore(current: dict[str, Any]) -> None:
    """Set the default streams to states that `capture` returned, here or on another rank."""
    torch.set_rng_state(current["torch"])
    random.setstate(current["python"])
    if "cuda" in current:
        torch.cuda.set_rng_state(current["cuda"])
    numpy = numpy_random()
    if numpy is not None and "numpy" in current:
        numpy.set_state(current["numpy"])


def digest(current: dict[str, Any] | None = None) -> bytes:
    """16 bytes that differ when any default stream does."""
    current = capture() if current is None else current
    made = hashlib.blake2b(current["torch"].numpy().tobytes(), digest_size=16)
    made.update(repr(current["python"]).encode())
    if "cuda" in current:
        made.update(bytes(current["cuda"].tolist()))
    if "numpy" in current:
        kind, keys, *rest = current["numpy"]
        made.update(keys.tobytes() + repr((kind, rest)).encode())
    return made.digest()


@dataclass
class Stream:
    """One torch generator that is switched between a replicated and a private state.

    The private state is derived from the seed of the replicated one, again whenever the user sets another seed.
    """

    generator: torch.Generator
    rank: int
    private: torch.Tensor | None = None
    replicated: torch.Tensor | None = None
    seed: int | None = None

    def enter(self) -> None:
        seed = self.generator.initial_seed()
        self.replicated = self.generator.get_state()
        if self.private is None or seed != self.seed:
            self.seed = seed
            self.generator.manual_seed(mix(seed, self.rank + 1))
        else:
            self.generator.set_state(self.private)

    def leave(self) -> None:
        assert self.replicated is not None
        self.private = self.generator.get_state()
        self.generator.set_state(self.replicated)


@dataclass
class Streams:
    """The random streams of one rank.

    Args:
        rank, world_size: this process among all.
        device: its accelerator's generator is switched too.
    """

    rank: int = 0
    world_size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    depth: int = 0
    _streams: list[Stream] = field(default_factory=list)
    _numpy: NumpyStream | None = None

    @property
    def opened(self) -> list[Stream]:
        """The streams that have been switched so far."""
        return self._streams

    def open(self) -> list[Stream]:
        """The streams that are switched: torch's of the CPU, and of this process's GPU."""
        if not self._streams:
            self._streams.append(Stream(torch.default_generator, self.rank))
            if self.device.type == "cuda":
                index = torch.cuda.current_device() if self.device.index is None else self.device.index
                torch.cuda.init()  # type: ignore[no-untyped-call]
                self._streams.append(Stream(torch.cuda.default_generators[index], self.rank))
        return self._streams

    def enter(self) -> None:
        """Switch to the private stream; calls nest."""
        self.depth += 1
        if self.depth == 1 and self.world_size > 1 and not self._capturing():
            for stream in self.open():
                stream.enter()

    def leave(self) -> None:
        """Switch back at the end of the outermost `enter`."""
        self.depth -= 1
        if self.depth == 0 and self.world_size > 1 and not self._capturing():
            for stream in self.open():
                stream.leave()

    def _capturing(self) -> bool:
        # A CUDA graph owns the generator while it is captured; its state can't be read then.
        return self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()

    @contextmanager
    def private(self) -> Iterator[None]:
        """Torch draws inside are this rank's own."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def replicated(self) -> Iterator[None]:
        """Torch draws inside are the same on all ranks, also within `private()`."""
        depth = self.depth
        if depth == 0 or self.world_size == 1:
            yield
            return
        self.depth = 1
        self.leave()
        try:
            yield
        finally:
            self.enter()
            self.depth = depth

    def states(self) -> list[torch.Tensor]:
        """The states of torch's generators, as they are switched now."""
        return [stream.generator.get_state() for stream in self.open()]

    @contextmanager
    def at(self, states: list[torch.Tensor]) -> Iterator[None]:
        """Torch draws inside begin at these states; the generators are set back after it."""
        before = self.states()
        try:
            for stream, wanted in zip(self.open(), states):
                stream.generator.set_state(wanted)
            yield
        finally:
            for stream, held in zip(self.open(), before):
                stream.generator.set_state(held)

    def skip(self) -> None:
        """Let each generator draw one number that nobody sees."""
        for stream in self.open():
            torch.empty((), dtype=torch.int64, device=stream.generator.device).random_(generator=stream.generator)

    @contextmanager
    def fetching(self) -> Iterator[None]:
        """Around the fetch of a slice in this process: torch's stream is private, Python's and NumPy's stay put.

        A data set that draws from Python's or NumPy's stream draws once per row. Slices differ in length, so these
        streams would drift apart; they are private inside and set back after it.
        """
        if self.world_size == 1:
            yield
            return
        python, numpy = random.getstate(), numpy_random()
        if numpy is not None and (self._numpy is None or self._numpy.random is not numpy):
            self._numpy = NumpyStream(numpy)
        with self.private():
            seed = int(torch.empty((), dtype=torch.int64).random_().item())
            random.seed(seed)
            if self._numpy is not None:
                self._numpy.begin(seed & 0xFFFFFFFF)
            try:
                yield
            finally:
                random.setstate(python)
                if self._numpy is not None:
                    self._numpy.end()

    def attach(self, module: nn.Module) -> None:
        """Make the forward of a module draw from the private stream; nothing to do on one process.

        Layers that drop out have it too when a method other than `forward` calls them: they draw at the size of the
        slice. What such a method itself draws (`generate` and its sampling) stays replicated.
        """
        if self.world_size == 1:
            return
        for layer in module.modules():
            if layer is not module and isinstance(layer, DRAWING):
                layer.register_forward_pre_hook(enter_layer, prepend=True)
                layer.register_forward_hook(leave_layer, always_call=True)
        compiled: Callable[..., Any] | None = getattr(module, "_compiled_call_impl", None)
        if compiled is not None:  # hooks inside a compiled call would break fullgraph=True
            module._compiled_call_impl = self.wrap(compiled)
            return
        # those of the class: modules that torch.jit compiled refuse their own, and call them all the same
        nn.Module.register_forward_pre_hook(module, enter_forward, prepend=True)
        nn.Module.register_forward_hook(module, leave_forward, always_call=True)

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that draws from the private stream."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with self.private():
                return function(*args, **kwargs)

        return call


# The hooks are plain functions that look the streams up, so that a prepared module can be copied and pickled.
@uncompiled
def enter_forward(module: nn.Module, args: Any) -> None:
    """Forward pre-hook of prepared modules."""
    refuse_opened("a prepared module")
    if state.streams is not None:
        state.streams.enter()


def enter_layer(module: nn.Module, args: Any) -> None:
    """Forward pre-hook of layers that drop out; a compiled graph keeps the stream of the forward around it.

    So does a forward that activation checkpointing repeats in a backward: it has set the generators back itself.
    """
    if not torch.compiler.is_compiling() and not _repeated():
        enter_forward(module, args)


def leave_layer(module: nn.Module, args: Any, output: Any) -> None:
    """Forward hook of layers that drop out."""
    if not torch.compiler.is_compiling() and not _repeated():
        leave_forward(module, args, output)


def _repeated() -> bool:
    outside = state.streams is not None and state.streams.depth == 0
    return outside and torch._C._current_graph_task_id() != -1


@uncompiled
def leave_forward(module: nn.Module, args: Any, output: Any) -> None:
    """Forward hook of prepared modules; called after a failed forward too."""
    if state.streams is not None:
        state.streams.leave()
