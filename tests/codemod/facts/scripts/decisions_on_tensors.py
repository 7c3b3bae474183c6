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
extra = DataLoader(TensorDataset(torch.randn(40, 6)), batch_size=10)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
opt = optim.SGD(model.parameters(), lr=0.2)
best, patience, skipped = torch.tensor(float('inf')), 0, 0
ema = None
for epoch in range(4):
    losses = []
    for (x, y), (u,) in zip(loader, extra):
        out = model(x)
        loss = F.cross_entropy(out, y) + 0.1 * (model(u).softmax(1) ** 2).sum(1).mean()
        if loss > 5 or torch.isnan(out).any():
            skipped += 1
            continue
        opt.zero_grad()
        loss.backward()
        rounds = 0
        scale = out.detach().abs().max()
        while scale > 0.1 and rounds < 20:
            scale = scale * 0.8
            rounds += 1
        opt.step()
        if (out.argmax(1) == y).all():
            print('all right')
        if y.float().mean() > 1 and x[:, 0].sum() < 0:
            print('odd batch', x[:, 0].sum().item())
        ema = loss.detach() if ema is None else torch.lerp(ema, loss.detach(), 0.1)
        losses.append(loss.detach())
        print(rounds, f'{scale.item():.5f} {ema.item():.5f}')
    mean = torch.stack(losses).mean()
    if mean < best - 1e-3:
        best, patience = mean, 0
        torch.save(model.state_dict(), 'best.pt')
    else:
        patience += 1
    print(f'{epoch} {mean:.6f} {best:.6f} {patience} {skipped}')
    if patience >= 2:
        break
