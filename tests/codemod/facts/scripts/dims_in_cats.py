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

def join(parts, dim):
    return torch.cat(parts, dim=dim)


class Pool(nn.Module):
    def __init__(self, dim=1):
        super().__init__()
        self.dim = dim
        self.score = nn.Linear(8, 1)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        weight = self.score(x).squeeze(-1).softmax(-1)
        return self.out((x * weight.unsqueeze(-1)).sum(self.dim))


data = TensorDataset(torch.randn(29, 5, 8), torch.randint(0, 3, (29,)))
loader = DataLoader(data, batch_size=7, shuffle=True)
model = Pool()
opt = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for x, y in loader:
        a, b = model(x), model(x.flip(1))
        both = join([a, b], 0)
        wide = join([a, b], -1)
        again = torch.cat([a, b], dim=-2)
        loss = F.cross_entropy(both, torch.cat([y, y], dim=0)) + 0.1 * wide.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        first, second = both.split(len(y), dim=-2)
        labels = torch.cat((y, y))
        print(f'{loss.item():.6f} {(first - second).abs().max().item():.5f} {(again.argmax(1) == labels).float().mean().item():.5f} {wide.norm(dim=-1).mean().item():.5f}')
        pieces = torch.stack([a, b], dim=-1).mean(-1)
        print(f'{pieces.mean(dim=-2).norm().item():.5f} {pieces.softmax(-2).max().item():.5f} {pieces.sum(-2).abs().sum().item():.5f}')
        rows = [r.max().item() for r in pieces.unbind(-2)]
        print([round(r, 4) for r in rows], round(pieces.select(-2, 0).sum().item(), 4), round(pieces.index_select(-2, torch.tensor([0])).sum().item(), 4))
