"""What tests of guards begin with: a prepared model, its optimizer and a batch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ALL = ("ddp", "fsdp", "zero1", "zero2", "zero3")
WHOLE = ("ddp", "fsdp")


class Setting:
    """A prepared model with its optimizer, and a batch."""

    def __init__(self, backend: str, prepare: bool = True, **options: Any) -> None:
        from distify import runtime

        zero = int(backend[-1]) if backend.startswith("zero") else None
        runtime.init(backend=backend if zero is None else "deepspeed", zero_stage=zero, **options)
        torch.manual_seed(0)
        self.runtime: Any = runtime
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        if prepare:
            runtime.prepare(self.model, self.optimizer)
        self.x, self.y = runtime.split((torch.randn(6, 6), torch.randint(0, 4, (6,))))

    def local(self) -> Tensor:
        return F.cross_entropy(self.model(self.x), self.y)

    def loss(self) -> Tensor:
        return self.runtime.mean(self.local())

    def train(self, optimizer: Any = None, steps: int = 2) -> list[float]:
        optimizer, losses = optimizer or self.optimizer, []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = self.loss()
            self.runtime.backward(loss)
            self.runtime.step(optimizer)
            losses.append(loss.item())
        return losses
