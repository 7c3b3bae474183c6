import math
from collections import defaultdict, deque, namedtuple
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)

class Center(nn.Module):
    def __init__(self, classes, width, momentum=0.9):
        super().__init__()
        self.register_buffer('centers', torch.zeros(classes, width))
        self.momentum = momentum

    def forward(self, z, y):
        return (z - self.centers[y]).pow(2).sum(1).mean()

    @torch.no_grad()
    def update(self, z, y):
        for c in y.unique():
            mean = z[y == c].mean(0)
            self.centers[c] = self.momentum * self.centers[c] + (1 - self.momentum) * mean


class Queue:
    def __init__(self, size, width):
        self.data = F.normalize(torch.randn(size, width), dim=1)
        self.at = 0

    def push(self, z):
        n = z.shape[0]
        size = self.data.shape[0]
        index = (torch.arange(n) + self.at) % size
        self.data[index] = z.detach()
        self.at = (self.at + n) % size


data = TensorDataset(torch.randn(29, 6), torch.randint(0, 3, (29,)))
loader = DataLoader(data, batch_size=7, shuffle=True)
body = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 4))
head = nn.Linear(4, 3)
center = Center(3, 4)
queue = Queue(16, 4)
recent = deque(maxlen=10)
opt = optim.SGD([*body.parameters(), *head.parameters()], lr=0.05)
mean, var = torch.zeros(4), torch.ones(4)
for epoch in range(2):
    for x, y in loader:
        z = body(x)
        norm = (z - mean) / var.sqrt()
        logits = F.normalize(z, dim=1) @ queue.data.t()
        loss = F.cross_entropy(head(norm), y) + 0.1 * center(z, y) + 0.01 * logits.logsumexp(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            mean = 0.9 * mean + 0.1 * z.mean(0)
            var = 0.9 * var + 0.1 * z.var(0, unbiased=False)
        center.update(z, y)
        queue.push(F.normalize(z, dim=1))
        for row in z.detach():
            recent.append(row.sum().item())
        print(f'{loss.item():.6f} {mean.norm().item():.5f} {var.sum().item():.5f} {center.centers.norm().item():.5f} {queue.data.sum().item():.5f} {queue.at} {sum(recent):.5f}')
