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

data = TensorDataset(torch.randn(29, 6), torch.randint(0, 3, (29,)))
loader = DataLoader(data, batch_size=7, shuffle=True)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
opt = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y, reduction='none').mean(-1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        acc = (out.argmax(-1) == y).float().mean(-1)
        top = out.max(-1).values.mean(-1)
        picked = out.gather(1, y[:, None]).squeeze(1).sum(-1)
        chosen = out[torch.arange(len(y)), y].mean(dim=-1)
        entropy = -(out.softmax(-1) * out.log_softmax(-1)).sum(-1).mean(-1)
        print(f'{loss.item():.6f} {acc.item():.5f} {top.item():.5f} {picked.item():.5f} {chosen.item():.5f} {entropy.item():.5f}')
