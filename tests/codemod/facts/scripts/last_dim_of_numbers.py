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

class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def per_row(model, x, y):
    return (model(x) - y).abs()


data = TensorDataset(torch.randn(29, 6), torch.randn(29))
loader = DataLoader(data, batch_size=7, shuffle=True)
model = Scorer()
opt = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for x, y in loader:
        error = per_row(model, x, y)
        loss = error.mean(-1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total = error.sum(-1).item()
        worst = error.max(-1)
        best = error.argmin(-1)
        length = error.norm(dim=-1)
        rms = error.pow(2).mean(dim=-1).sqrt()
        print(f'{loss.item():.6f} {total:.5f} {worst.values.item():.5f} {worst.indices.item()} {best.item()} {length.item():.5f} {rms.item():.5f}')
        print(f'{error.std(-1).item() if len(x) > 1 else 0:.5f} {error.logsumexp(-1).item():.5f} {torch.linalg.vector_norm(error, dim=-1).item():.5f}')
        print(f'{F.cosine_similarity(model(x), y, dim=-1).item():.5f} {F.normalize(error, dim=-1).sum().item():.5f}')
