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

DIMS = {'classes': 1, 'rows': 0}


def spread(values, dim):
    return values.sum(dim)


def soft(values, dim=1):
    return values.exp() / values.exp().sum(dim, keepdim=True)


def over_all_but_first(values):
    return values.mean(dim=tuple(range(1, values.dim())))


def over_rest(values):
    return values.sum(dim=list(range(1, values.ndim)))


data = TensorDataset(torch.randn(29, 2, 3), torch.randint(0, 3, (29,)))
loader = DataLoader(data, batch_size=7, shuffle=True)
model = nn.Sequential(nn.Flatten(), nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
opt = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for x, y in loader:
        out = model(x)
        p = soft(out)
        loss = -(p[range(len(y)), y].log()).mean() + 0.01 * over_all_but_first(x * out.unsqueeze(1)).pow(2).mean()
        loss = loss + 0.001 * over_rest(x * out[:, None]).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        axis = 0
        print(f'{loss.item():.6f}', [round(v, 4) for v in spread(out, axis).tolist()], round(spread(out, 1).max().item(), 4))
        per = x.flatten(1).mean(tuple(range(1, 2)))
        print(f'{per.max().item():.5f} {out.mean(-2).norm().item():.5f} {x.sum(dim=(-1, -2)).std().item() if len(x) > 1 else 0:.5f}')
