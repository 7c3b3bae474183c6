"""Reduced precision: the autocast type of a run, and the dynamic loss scale that fp16 needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ContextDecorator, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from .config import Config
from .overflow import Overflow
from .state import require, state

if TYPE_CHECKING:
    from .backends.base import Backend


class Scaler:
    """The loss scale of fp16: constant from a backward through all steps that follow, then adjusted.

    Rule and constants are those of `torch.amp.GradScaler` (Micikevicius et al. 2018, section 3.2): halved after a step
    that met inf or NaN, doubled after 2000 steps in a row that met none.

    Attributes:
        scale: what the loss is multiplied by, 1.0 to the largest float.
        good: steps since the scale last changed.
    """

    def __init__(
        self, scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5, interval: int = 2000
    ) -> None:
        self.scale = scale
        self.good = 0
        self.growth_factor, self.backoff_factor, self.interval = growth_factor, backoff_factor, interval
        self.ratio = 1.0  # new scale over old, of adjustments that held gradients have not followed yet
        self._found: dict[Optimizer, Overflow] = {}  # optimizers whose gradients are unscaled now: did they hold inf?
        self._stepped: dict[Optimizer, list[Overflow]] = {}  # those that stepped since the scale was last adjusted

    @property
    def applied(self) -> float:
        """What a rank's loss is multiplied by: the gradients inside its forward are then as large as on one process.

        Averaging over ranks makes a rank's loss weigh its samples N times; in fp16 they would overflow that much
        earlier, and other steps would be skipped than in the original.
        """
        return self.scale / state.world_size

    def unscale(self, backend: Backend, optimizer: Optimizer) -> None:
        """Divide the optimizer's gradients by the scale, once between two backward calls."""
        if optimizer not in self._found:
            backend.complete()
            self._found[optimizer] = Overflow(backend.unscale(optimizer, 1.0 / self.applied))

    def overflow(self, optimizer: Optimizer) -> Overflow:
        """Whether the unscaled gradients hold inf or NaN on any rank; noted as a step for the next adjustment."""
        found = self._found[optimizer]
        self._stepped.setdefault(optimizer, []).append(found)
        return found

    def before_backward(self, backend: Backend) -> None:
        """Adjust the scale if optimizers stepped, and bring gradients that are still held to the scale."""
        self.adjust()
        ratio, self.ratio = self.ratio, 1.0
        if not self._found and ratio == 1.0:
            return
        for optimizer in state.optimizers:
            factor = self.applied if optimizer in self._found else ratio
            if factor != 1.0 and any(p.grad is not None for p in _parameters(optimizer)):
                backend.scale_grads([optimizer], factor)
        self._found.clear()

    def adjust(self) -> None:
        """Adjust the scale for the steps since the last call."""
        if not self._stepped:
            return
        before = self.scale
        if any(found for each in self._stepped.values() for found in each):
            self.scale, self.good = self.scale * self.backoff_factor, 0
        else:
            self.good += 1
            if self.good == self.interval:
                self.scale, self.good = self.scale * self.growth_factor, 0
        self._stepped.clear()
        self.ratio *= self.scale / before

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs, with the keys of `torch.amp.GradScaler`."""
        self.adjust()
        return {
            "scale": self.scale,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.interval,
            "_growth_tracker": self.good,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned here, or that of a `torch.amp.GradScaler`."""
        self.scale, self.good = float(saved["scale"]), int(saved["_growth_tracker"])
        self.growth_factor, self.backoff_factor = float(saved["growth_factor"]), float(saved["backoff_factor"])
        self.interval = int(saved["growth_interval"])
        self.ratio = 1.0
        self._found.clear()
        self._stepped.clear()


class Precision:
    """How a run computes.

    Args:
        config: options of the run.
        device: where it computes.

    Attributes:
        name: "fp32", "bf16" or "fp16".
        dtype: type of the matrix products under `autocast`, `None` for fp32.
        scaler: loss scale for fp16, else `None`.
    """

    def __init__(self, config: Config, device: torch.device) -> None:
        self.name = config.precision
        self.device_type = device.type
        self.dtype = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[config.precision]
        self.scaler: Scaler | None = Scaler() if config.precision == "fp16" else None

    def autocast(self) -> AbstractContextManager[Any]:
        """Context in which matrix products and convolutions run in `dtype`."""
        if self.dtype is None:
            return _Nothing()
        return torch.autocast(self.device_type, dtype=self.dtype)


class _Nothing(nullcontext[None]):
    """No context, which can decorate a function too, as torch's autocast can."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


class _Later(ContextDecorator):
    """The autocast of a run that has not begun: of a decorator, or of a context that a script makes ahead."""

    def __init__(self) -> None:
        self.entered: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> None:
        precision = require("autocast").precision
        assert precision is not None
        context = precision.autocast()
        context.__enter__()
        self.entered.append(context)

    def __exit__(self, *error: Any) -> None:
        self.entered.pop().__exit__(*error)


def autocast() -> AbstractContextManager[Any]:
    """Context around forward and loss: they run in the precision of the run; does nothing for fp32.

    It can be entered again and again, and decorate a function. Made before `init`, it asks when it is entered.

    Raises:
        NotInitialized: it is entered before `init` has run.
    """
    return _Later() if state.precision is None else state.precision.autocast()


def _parameters(optimizer: Optimizer) -> Sequence[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]
