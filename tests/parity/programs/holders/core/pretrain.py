from dataclasses import dataclass, field
from functools import cached_property

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from .wrappers import section, timed


class Decoder(nn.Linear):
    def __init__(self):
        super().__init__(8, 6)


@dataclass
class Pretraining:
    encoder: nn.Module
    loader: DataLoader
    decoder: nn.Module = field(default_factory=Decoder)
    losses: list = field(default_factory=list)

    @cached_property
    def optimizer(self):
        parameters = [*self.encoder.parameters(), *self.decoder.parameters()]
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)

    @timed
    def epoch(self):
        for x in self.loader:
            self.optimizer.zero_grad()
            loss = F.mse_loss(self.decoder(self.encoder(x)), x)
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())

    @section("pretraining")
    def run(self, epochs):
        for _ in range(epochs):
            self.epoch()
            print(f"reconstruction {self.losses[-1]:.6f}")
