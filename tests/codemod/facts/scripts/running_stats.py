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

class Standard:
    def __init__(self, width):
        self.count, self.mean, self.m2 = 0, torch.zeros(width), torch.zeros(width)

    def update(self, batch):
        n = batch.shape[0]
        delta = batch.mean(0) - self.mean
        total = self.count + n
        self.mean = self.mean + delta * n / total
        self.m2 = self.m2 + batch.var(0, unbiased=False) * n + delta ** 2 * self.count * n / total
        self.count = total

    @property
    def std(self):
        return (self.m2 / self.count).sqrt()


class Ema:
    def __init__(self, beta=0.9):
        self.beta, self.value, self.steps = beta, 0.0, 0

    def __call__(self, x):
        self.steps += 1
        self.value = self.beta * self.value + (1 - self.beta) * float(x)
        return self.value / (1 - self.beta ** self.steps)


data = TensorDataset(torch.randn(29, 6) * 3 + 1, torch.randn(29, 1))
loader = DataLoader(data, batch_size=7, shuffle=True)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
opt = optim.SGD(model.parameters(), lr=0.05)
scaler, smooth, window = Standard(6), Ema(), deque(maxlen=5)
best = math.inf
for epoch in range(3):
    running, mae, worst, n_seen = 0.0, 0.0, 0.0, 0
    for step, (x, y) in enumerate(loader, 1):
        scaler.update(x)
        out = model((x - scaler.mean) / (scaler.std + 1e-3))
        error = out - y
        loss = (error ** 2).mean() if epoch else error.abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += (loss.item() - running) / step
        window.append(loss.item())
        mae += error.abs().sum().item()
        worst = max(worst, error.abs().max().item())
        n_seen += len(y)
        print(f'{smooth(loss):.6f} {running:.6f} {sum(window) / len(window):.5f} {np.mean(window):.5f} {worst:.5f}')
    if running < best:
        best = running
    elif epoch > 1 and running > best:
        print('no better')
    print(f'{mae / n_seen:.6f} {scaler.mean.norm().item():.5f} {scaler.std.sum().item():.5f} {scaler.count} {best:.5f}')
