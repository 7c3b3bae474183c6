"""One DeepSpeed engine: models, their optimizer, and the parts of both on this rank.

The engine's own `backward` and `step` are not called: they scale, clip, and decide when a window is complete. The ZeRO
optimizer inside is driven directly: its hooks reduce gradients, `fold` completes them, where they lie in parts they
are unscaled and clipped, and `step` updates the parts and brings the models to them. (DeepSpeed's own `step` asks the
GPU for the norm of what was clipped, once more, and waits for the answer.)

Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (2020).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..state import state
from .deepspeed_load import build
from .flat_optimizer import FlatOptimizer
from .flats import Flats
from .watch import Watch, hook
from .zero_light import lighten
from .zero_used import Used


class Zero:
    """An engine behind a common face; the stages differ in what stands at the end of the class.

    Args:
        deepspeed: the package.
        modules: what the optimizer updates; several are held in a list.
        optimizer: the user's own. It keeps its parameters; DeepSpeed steps a shadow with the same options.
        stage: ZeRO stage, 1 to 3.
        watch: hook of each parameter.

    Attributes:
        used: parameters that got a gradient since the gradients were last cleared.
        folded: whether all gradients are complete.
        left: parameters whose gradients of the last step nobody has cleared; they are gone, in torch they would not be.
        graph: whether gradients with a graph were computed since the parameters changed.
    """

    def __init__(
        self, deepspeed: Any, modules: Sequence[nn.Module], optimizer: Optimizer, stage: int, watch: Watch
    ) -> None:
        self.watch = watch
        self.deepspeed, self.modules, self.stage = deepspeed, list(modules), stage
        self.names: dict[Tensor, str] = {p: name for module in modules for name, p in module.named_parameters()}
        self.dtypes, self.shapes = {p: p.dtype for p in self.names}, {p: p.shape for p in self.names}
        assert state.precision is not None
        dtype = state.precision.dtype
        originals = {p: p.detach().clone() for p in self.names} if dtype is not None else {}
        self.optimizer = FlatOptimizer(optimizer)
        self.used: set[Tensor] = set()
        self.left: set[Tensor] = set()
        self.folded = self.graph = False
        self.engine = build(deepspeed, self.modules, self.optimizer.shadow, stage, dtype)
        self.zero: Any = self.engine.optimizer
        self.zero.optimizer = self.optimizer.shadow  # DeepSpeed puts an Adagrad of its own in its place
        lighten(self.zero, self.modules)
        self.flats = self._flats()
        for p in self.flats.places:
            hook(p, self._arrived)
        self.kept = {p: x.cpu() for p, x in originals.items() if p not in self.flats.places}
        if originals:  # DeepSpeed would start from the rounded weights
            self.write({p: originals[p] for p in self.flats.places})
        self.optimizer.attach(self.flats)
        self.question = Used(self.flats.places)

    def __contains__(self, p: object) -> bool:
        return p in self.flats.places

    def _arrived(self, p: Tensor) -> None:
        """Hook: a backward accumulated a gradient."""
        self.watch(p)
        self._note(p)

    def _note(self, p: Tensor) -> None:
        self.used.add(p)
        self.folded = False

    def begin(self) -> None:
        """Before a backward that may reach this engine's parameters."""
        self.zero.clear_backward_seen_flag()
        self.zero.enter_backward()
        self.engine._running_engine_backward = True  # DeepSpeed's hooks leave the end of the backward to `end`

    def end(self) -> None:
        """After it: what DeepSpeed's hooks collected is completed, if they ran."""
        if self.zero._hooks_fired_this_backward > 0:
            self.engine._backward_epilogue()
        else:
            self.zero.exit_backward()
        self.engine._running_engine_backward = False

    def hold(self) -> None:
        """Before gradients with a graph, or through one; parameters are whole anyway."""

    def fold(self) -> None:
        """Complete the gradients; a collective. Parameters count as used where any rank used them."""
        if not self.folded:
            self.used = self.question.agree(self.used | {p for p in self.flats.places if p.grad is not None})
            self._fold()
            self.folded = True

    def step(self) -> None:
        """One step of the optimizer; the gradients are cleared."""
        self.fold()
        if not self.optimizer.begin(self.used, self.names):
            return
        for master, grad in zip(self.flats.masters, self._whole_grads(), strict=True):
            master.grad = grad
        self.optimizer.run()
        for master in self.flats.masters:
            master.grad = None
        self._advance()
        self.optimizer.end()
        left = set(self.used)
        self.clear()
        self.left, self.graph = left, False

    def forget(self, parameters: Iterable[Tensor], zero: bool) -> None:
        """What `zero_grad` does: the gradients of these are dropped, or `zero`."""
        mine = self.flats.places.keys() & set(parameters)
        had = (self.used | self.left) & mine if zero else set()
        self.left -= mine
        self.clear(None if len(mine) == len(self.flats.places) else mine)
        self.used |= had

    def whole(self, p: Tensor) -> Tensor:
        """A new whole tensor with the values of a parameter, in its original type, on the device; a collective."""
        if p in self:
            return self.flats.gather(p, self.flats.master(p)).to(self.dtypes[p])
        if p in self.kept:
            return self.kept[p].to(state.device, copy=True)
        return self._read_other(p)

    def write(self, values: dict[Tensor, Tensor]) -> None:
        """Set parameters to whole values; a collective."""
        for p, value in values.items():
            if p in self:
                self.flats.put(p, value, self.flats.master(p))
                continue
            self._write_other(p, value)
            if p in self.kept:
                self.kept[p] = value.detach().to("cpu", self.dtypes[p], copy=True)
        self._publish()

    def whole_grad(self, p: Tensor) -> Tensor | None:
        """The whole gradient of a parameter, after `fold`; a collective."""
        piece = self.grad(p) if p in self else None
        return None if piece is None else self.flats.join(p, piece).to(p.dtype)

    def put_grad(self, p: Tensor, grad: Tensor) -> None:
        """Set the gradient of a parameter to a whole one, after `fold`."""
        self._piece(p).copy_(self.flats.cut(p, grad))
        self.used.add(p)

    # --- what the stages differ in ------------------------------------------------------------------------------------
    def _flats(self) -> Flats:
        raise NotImplementedError

    def _fold(self) -> None:
        raise NotImplementedError

    def grad(self, p: Tensor) -> Tensor | None:
        """This rank's piece of a parameter's gradient, after `fold`; `None` if there is none."""
        raise NotImplementedError

    def _piece(self, p: Tensor) -> Tensor:
        """Where this rank's piece of a parameter's gradient lies, after `fold`."""
        raise NotImplementedError

    def _whole_grads(self) -> list[Tensor]:
        """The gradients of the flat buffers, after `fold`."""
        raise NotImplementedError

    def _advance(self) -> None:
        """Bring the models to the values of the flat buffers after a step; a collective."""
        self._publish()

    def clear(self, parameters: Iterable[Tensor] | None = None) -> None:
        """Drop the gradients of all, or of some parameters."""
        raise NotImplementedError

    def add(self, p: Tensor, grad: Tensor) -> None:
        """Add a whole gradient, equal on all ranks, after a backward."""
        raise NotImplementedError

    def _publish(self) -> None:
        """Bring what the models compute with to the values of the flat buffers; a collective."""
        raise NotImplementedError

    def _read_other(self, p: Tensor) -> Tensor:
        return p.detach().clone()

    def _write_other(self, p: Tensor, value: Tensor) -> None:
        with torch.no_grad():
            p.copy_(value)
