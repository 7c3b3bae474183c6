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

def evaluate(model, loader):
    model.eval()
    confident, hits, seen, margins = 0.0, 0, 0, []
    with torch.no_grad():
        for x, y in loader:
            p = model(x).softmax(1)
            top = p.max(dim=1)
            confident += top.values.sum().item()
            hits += (top.indices == y).sum().item()
            two = p.topk(2, dim=1)
            margins.append((two.values[:, 0] - two.values[:, 1]).mean().item())
            seen += y.numel()
    return confident / seen, hits / seen, margins


data = TensorDataset(torch.randn(29, 6), torch.randint(0, 3, (29,)))
loader = DataLoader(data, batch_size=7, shuffle=True)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
opt = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    model.train()
    for x, y in loader:
        out = model(x)
        best = torch.max(out, 1)
        second = torch.sort(out, dim=1, descending=True).values[:, 1]
        loss = F.cross_entropy(out, y) + 0.1 * F.relu(1 - best.values + second).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        kth = out.kthvalue(2, dim=1)
        print(f'{loss.item():.6f} {best.values.mean().item():.5f} {(best.indices == y).float().mean().item():.5f} {kth.values.std().item() if len(y) > 1 else 0:.5f}')
        print(f'{out.median(1).values.max().item():.5f} {out.median(dim=1)[0].min().item():.5f} {out.min(0).values.sum().item():.5f} {out.max(0).indices.tolist()} {out.cummax(1).values.sum().item():.4f}')
    print(evaluate(model, DataLoader(data, batch_size=6)))
