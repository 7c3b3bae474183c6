"""Loaders gone round by `itertools.cycle`: alone, beside another one, and over what goes over several."""

import itertools
from itertools import cycle, islice

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
x = torch.randn(29, 6)
y = (x.sum(1) > 0).long() + (x[:, 0] > 1).long()
train = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
other = DataLoader(TensorDataset(x[:13], y[:13]), batch_size=4, shuffle=True)
net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def update(loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def moved():
    for a, b in other:
        yield a + 1, b


batches = itertools.cycle(train)
for step in range(9):
    a, b = next(batches)
    loss = F.cross_entropy(net(a), b)
    update(loss)
    print(step, f"{loss.item():.5f}", len(a))
for (a, b), (c, d) in zip(train, cycle(other)):
    loss = F.cross_entropy(net(a), b) + F.cross_entropy(net(c), d)
    update(loss)
    print(f"{loss.item():.5f}", len(a), len(c))
for (a, b), (c, d) in islice(cycle(zip(train, other)), 6):
    loss = F.cross_entropy(net(a), b) + F.cross_entropy(net(c), d)
    update(loss)
    print(f"{loss.item():.5f}", len(a), len(c))
for a, b in islice(cycle(moved()), 6):
    loss = F.cross_entropy(net(a), b)
    update(loss)
    print(f"{loss.item():.5f}", len(a), f"{a.mean().item():.5f}")
