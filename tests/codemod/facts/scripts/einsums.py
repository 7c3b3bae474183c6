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

data = TensorDataset(torch.randn(29, 4, 6), torch.randint(0, 3, (29,)))
loader = DataLoader(data, batch_size=7, shuffle=True)
model = nn.Sequential(nn.Flatten(), nn.Linear(24, 12), nn.Tanh(), nn.Linear(12, 3))
opt = optim.SGD(model.parameters(), lr=0.05)
weight = torch.randn(3)
for epoch in range(2):
    for x, y in loader:
        out = model(x)
        target = F.one_hot(y, 3).float()
        loss = -torch.einsum('...c,...c->', out.log_softmax(1), target) / len(y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        each = torch.einsum('bc,bc->b', out, target)
        print(f'{loss.item():.6f} {each.mean().item():.5f} {torch.einsum("bc,bc", out, target).item():.5f} {torch.einsum("bc,c", out, weight).max().item():.5f}')
        print(f'{torch.einsum("...c,c->...", out, weight).sum().item():.5f} {torch.einsum("b...,b...->...", out, target).norm().item():.5f}')
        print(f'{torch.einsum("i j, i k -> j k", out, target).abs().sum().item():.5f} {torch.einsum("btd->td", x).norm().item():.5f} {torch.einsum("btd->bd", x).norm(dim=1).mean().item():.5f}')
        print(f'{torch.tensordot(out, target, dims=([0], [0])).norm().item():.5f} {torch.inner(out.flatten(), target.flatten()).item():.5f} {torch.trace(out.T @ target).item():.5f} {torch.outer(weight, out.mean(0)).sum().item():.5f}')
        print(f'{(out.T @ target).sum().item():.5f} {torch.bmm(x, x.transpose(1, 2)).mean().item():.5f} {torch.matmul(out.t(), out).diag().sum().item():.5f} {torch.mv(out, weight).sum().item():.5f}')
