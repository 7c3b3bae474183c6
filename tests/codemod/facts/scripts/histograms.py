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

def expected_calibration(confidence, correct, bins=5):
    edges = torch.linspace(0, 1, bins + 1)
    total = torch.zeros(1)
    for low, high in zip(edges[:-1], edges[1:]):
        inside = confidence.gt(low) & confidence.le(high)
        share = inside.float().mean()
        if share.item() > 0:
            total += (confidence[inside].mean() - correct[inside].float().mean()).abs() * share
    return total.item()


data = TensorDataset(torch.randn(29, 6), torch.randint(0, 3, (29,)))
loader = DataLoader(data, batch_size=7, shuffle=True)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
opt = optim.SGD(model.parameters(), lr=0.05)
counts = torch.zeros(3, dtype=torch.long)
for epoch in range(2):
    losses, per_class, hist = [], defaultdict(list), torch.zeros(4)
    for x, y in loader:
        out = model(x)
        each = F.cross_entropy(out, y, reduction='none')
        weight = torch.ones(3)[y] + 0.5 * (y == 0).float()
        loss = (weight * each).sum() / weight.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        p = out.detach().softmax(1)
        hist += torch.histc(p.max(1).values, bins=4, min=0, max=1)
        counts.scatter_add_(0, y, torch.ones_like(y))
        for c in range(3):
            chosen = each[y == c]
            if chosen.numel() > 0:
                per_class[c].append(chosen.mean().item())
        value, index = each.topk(min(2, len(y)))
        print(f'{loss.item():.6f} {value.mean().item():.5f} {p[index].max().item():.5f} {expected_calibration(p.max(1)[0], p.argmax(1) == y):.5f}')
        print(f'{x[each.argmax()].sum().item():.5f} {y[each.argmin()].item()} {int(each.argmax())} {each.quantile(0.5).item():.5f}')
        losses.extend(each.tolist())
    print(np.percentile(losses, 90).round(5), hist.tolist(), counts.tolist(), {c: round(sum(v) / len(v), 5) for c, v in sorted(per_class.items())})
    print(f'{np.mean(losses):.6f} {sorted(losses)[len(losses) // 2]:.5f}')
