"""The loss scale of the run with the methods of `torch.amp.GradScaler`, for scripts that keep or pass on theirs."""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer

from .optim import step
from .precision import Scaler
from .state import require, state


class LossScale:
    """Stands for the loss scale of the run; like a scaler of torch that is switched off where the run has none.

    `scale` gives back what it is given: `backward` scales. `get_scale`, `update`, `state_dict` and `load_state_dict`
    are those of the scale that is in use, with the keys of `torch.amp.GradScaler` in checkpoints. Where the run has
    none, what was loaded is kept and handed on: the original refuses a file without a state for its scaler.

    Args:
        settings: of the scale, by the names of `Scaler`'s arguments; those of torch that are given.
        enabled: whether the original's scaler is switched on.
    """

    def __init__(self, settings: dict[str, Any], enabled: bool = True) -> None:
        self._settings = settings
        self._handed_on = Scaler(**settings).state_dict() if enabled else {}

    def _used(self) -> Scaler | None:
        """The scale of the run, set up as the script asked for."""
        precision = require("scaler").precision
        assert precision is not None
        found, settings = precision.scaler, self._settings
        if found is not None and settings:
            self._settings = {}
            for name, value in settings.items():
                setattr(found, name, value)
        return found

    def scale(self, outputs: Any) -> Any:
        """The outputs themselves."""
        return outputs

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer by the scale, as clipping and `step` do anyway."""
        found = self._used()
        if found is not None:
            assert state.backend is not None
            found.unscale(state.backend, optimizer)

    def step(self, optimizer: Optimizer, *args: Any) -> Any:
        """`runtime.step`."""
        return step(optimizer, *args)

    def update(self) -> None:
        """Adjust the scale for the steps since the last call."""
        found = self._used()
        if found is not None:
            found.adjust()

    def get_scale(self) -> float:
        """The scale, 1.0 where the run has none."""
        found = self._used()
        return 1.0 if found is None else found.scale

    def is_enabled(self) -> bool:
        """Whether losses are scaled."""
        return self._used() is not None

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs; where the run has no scale, what the original's would begin or go on with."""
        found = self._used()
        return dict(self._handed_on) if found is None else found.state_dict()

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from a saved state; nothing happens where none was saved."""
        found = self._used()
        if saved and found is not None:
            found.load_state_dict(saved)
        elif saved and self._handed_on:
            self._handed_on = dict(saved)


def scaler(
    device: Any = None,
    init_scale: float | None = None,
    growth_factor: float | None = None,
    backoff_factor: float | None = None,
    growth_interval: int | None = None,
    enabled: bool = True,
) -> LossScale:
    """The loss scale of the run, in place of a `torch.amp.GradScaler` that a script keeps in checkpoints or passes on.

    There is one scale, whatever number of optimizers: a step with inf or NaN is skipped for its optimizer, and the
    scale is halved for all.

    Args:
        device: ignored.
        enabled: whether the original's is switched on, for checkpoints; the run's precision decides over the scale.
        init_scale, growth_factor, backoff_factor, growth_interval: as in `torch.amp.GradScaler`, where given.

    Returns:
        An object with its methods.
    """
    given = {
        "scale": init_scale,
        "growth_factor": growth_factor,
        "backoff_factor": backoff_factor,
        "interval": growth_interval,
    }
    found = LossScale({name: value for name, value in given.items() if value is not None}, enabled)
    if state.precision is not None:
        found.is_enabled()  # sets the scale up before the first backward
    return found
