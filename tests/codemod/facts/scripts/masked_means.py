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

data = TensorDataset(torch.randn(29, 5, 4), torch.randint(0, 3, (29, 5)), torch.rand(29) + 0.1, torch.rand(29, 5) > 0.4)
loader = DataLoader(data, batch_size=7, shuffle=True)
model = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 3))
opt = optim.Adam(model.parameters(), lr=0.02)
running = None
history = defaultdict(list)
for epoch in range(2):
    total, seen, right, tokens = 0.0, 0, 0, 0
    for i, (x, y, w, m) in enumerate(loader):
        out = model(x)
        token = F.cross_entropy(out.view(-1, 3), y.view(-1), reduction='none').view(y.shape)
        a = token[m].mean()
        b = (token * m).sum() / m.sum()
        c = (w * token.mean(1)).sum() / w.sum()
        d = torch.where(m, token, torch.zeros_like(token)).mean()
        last = token[:, -1].mean()
        each = ((token * m).sum(1) / m.sum(1).clamp(min=1)).mean()
        loss = a + b + c + d + last + each
        opt.zero_grad()
        loss.backward()
        opt.step()
        running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
        total += loss.item() * x.size(0)
        seen += x.size(0)
        right += ((out.argmax(-1) == y) & m).sum().item()
        tokens += int(m.sum())
        history['loss'].append(loss.item())
        history['mask'].append(m.float().mean().item())
        history['acc'].append((out.argmax(-1) == y)[m].float().mean().item())
        hard = token[token > token.mean()]
        print(f'{running:.6f} {total / (i + 1):.5f} {hard.mean().item():.5f} {hard.numel()} {(hard.sum() / hard.size(0)).item():.5f}')
        print(f'{torch.masked_select(token, m).mean().item():.5f} {token.masked_fill(~m, 0).sum().item():.4f} {token.flatten()[m.flatten()].median().item():.5f}')
    print(f'{total / seen:.6f} {right / tokens:.5f}', {k: round(sum(v) / len(v), 5) for k, v in history.items()})
