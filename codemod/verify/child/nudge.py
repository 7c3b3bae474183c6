"""Moves each weight by its last digit before it is first used: what a run then does differently is rounding."""

from __future__ import annotations

import importlib
from typing import Any


class Nudge:
    """Nudges the parameters of modules as they are first called.

    Args:
        torch: the module.
    """

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.done: set[int] = set()
        self.kept: list[Any] = []
        self.generator = torch.Generator()  # of its own: the script's streams are not touched
        self.generator.manual_seed(1)

    def install(self) -> None:
        """Watch all calls of modules."""
        importlib.import_module("torch.nn.modules.module").register_module_forward_pre_hook(self.before)

    def before(self, module: Any, args: Any) -> None:
        """Nudge the module's own parameters, each once."""
        for parameter in module._parameters.values():
            if parameter is not None and parameter.requires_grad and id(parameter) not in self.done:
                self.done.add(id(parameter))
                self.kept.append(parameter)  # so that no other gets its id
                if parameter.is_floating_point():
                    self.move(parameter)

    def move(self, parameter: Any) -> None:
        """Up or down by the type's own precision; past autograd, which may hold the parameter already."""
        data = parameter.data
        up = self.torch.rand(data.shape, generator=self.generator) < 0.5
        unit = self.torch.finfo(data.dtype).eps
        data.mul_((1 + unit * (2 * up.double() - 1)).to(device=data.device, dtype=data.dtype))
