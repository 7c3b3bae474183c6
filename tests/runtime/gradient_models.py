"""The original's side of the gradient cases, and the models that they train."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

CLASSES = 3
Case = Callable[[Any, nn.Module, Tensor, Tensor], Any]


class Plain:
    """The original: one process, the whole batch."""

    @staticmethod
    def mean(x: Any, by: Any = None, of: Any = None) -> Any:
        return x

    @staticmethod
    def sum(x: Any, of: Any = None) -> Any:
        return x

    max = min = sum

    @staticmethod
    def averaged(x: Any, by: Any = None) -> Any:
        return x

    @staticmethod
    def gather(x: Any, dim: int = 0, of: Any = None) -> Any:
        return x

    @staticmethod
    def backward(loss: Tensor, **options: Any) -> None:
        loss.backward(**options)

    grad = staticmethod(torch.autograd.grad)

    @staticmethod
    def full(parameter: Any) -> Any:
        return parameter

    @staticmethod
    @contextmanager
    def frozen(*modules: nn.Module) -> Any:
        for m in modules:
            m.requires_grad_(False)
        yield
        for m in modules:
            m.requires_grad_(True)

    autocast = staticmethod(nullcontext)


class Net(nn.Module):
    """Two layers, a method beside `forward`, and a part that most cases do not use."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, CLASSES)
        self.rare = nn.Linear(CLASSES, CLASSES)

    def forward(self, x: Tensor, rare: bool = False) -> Tensor:
        out = self.encode(x)
        return self.rare(out) if rare else out

    def encode(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x)))


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(24, 8)
        self.flat = nn.BatchNorm1d(8, momentum=None)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.conv(x.view(-1, 1, 2, 3))).relu().flatten(1)
        return self.out(torch.tanh(self.flat(self.head(h))))


def rows(x: Tensor) -> Tensor:
    """Positive numbers that differ by row, taken from the inputs (so that they follow the rows into slices)."""
    return x[:, 0].abs() + 0.5
