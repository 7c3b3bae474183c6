"""The runtime's one piece of mutable state: which run this is, and what has been prepared for it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.distributed import ProcessGroup

    from .accumulate import Windows
    from .backends.base import Backend
    from .batches import Batches
    from .config import Config
    from .precision import Precision
    from .streams import Streams


class DistifyError(RuntimeError):
    """A mistake in how the runtime is used; the message says what to write instead."""


class NotInitialized(DistifyError):
    """A runtime function was called before `runtime.init()`."""


@dataclass
class State:
    """Everything that `init` decides and `prepare` adds.

    Attributes:
        config: resolved options of this run, `None` before `init`.
        rank, local_rank, world_size: this process among all; 0, 0, 1 without a launcher.
        device: where this process computes.
        backend: the gradient and sharding strategy.
        precision: autocast dtype and loss scaler.
        streams: replicated and private random streams.
        batches: records of the batches that are alive.
        windows: the accumulation window.
        modules: prepared modules that have trainable parameters.
        optimizers: prepared optimizers.
        reduce_group: process group of the differentiable reductions, apart from the gradient buckets so that the
            two can't interleave.
        owns_group: whether `init` created the default process group (and `shutdown` must destroy it).
        recorded: differentiable reductions recorded since the last backward.
    """

    config: Config | None = None
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    device: torch.device | None = None
    backend: Backend | None = None
    precision: Precision | None = None
    streams: Streams | None = None
    batches: Batches | None = None
    windows: Windows | None = None
    modules: list[nn.Module] = field(default_factory=list)
    optimizers: list[torch.optim.Optimizer] = field(default_factory=list)
    reduce_group: ProcessGroup | None = None
    owns_group: bool = False
    recorded: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    def reset(self) -> None:
        """Forget everything, as in a fresh process (after `shutdown`, and between runs in tests)."""
        fresh = State()
        for item in fields(self):
            setattr(self, item.name, getattr(fresh, item.name))


state = State()


def require(caller: str) -> State:
    """Return the state of the initialised runtime.

    Raises:
        NotInitialized: `runtime.init()` has not run yet; `caller` is named in the message.
    """
    if state.config is None:
        raise NotInitialized(
            f"runtime.{caller}() was called before runtime.init(). Call runtime.init() once, "
            "before the first statement that seeds, builds a model, or opens data."
        )
    return state


def refuse_opened(what: str) -> None:
    """Refuse a forward where parameters are laid open: what gathers them would undo it.

    Args:
        what: is called.

    Raises:
        DistifyError: in a `runtime.whole()` block.
    """
    if state.extra.get("whole"):
        raise DistifyError(
            f"{what} was called in a runtime.whole() block, where its parameters are laid open to be changed. Call it "
            "after the block."
        )
