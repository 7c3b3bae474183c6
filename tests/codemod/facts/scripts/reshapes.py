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

def rearrange(x, heads):
    b, n, c = x.shape
    return x.reshape(b, n, heads, c // heads).permute(0, 2, 1, 3)


class Attend(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, 3)
        self.heads = heads

    def forward(self, x):
        q, k, v = (rearrange(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        att = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1)
        z = (att @ v).transpose(1, 2).flatten(2)
        return self.out(z), att


data = TensorDataset(torch.randn(29, 5, 8), torch.randint(0, 3, (29, 5)))
loader = DataLoader(data, batch_size=7, shuffle=True)
model = Attend()
opt = optim.Adam(model.parameters(), lr=0.02)
for epoch in range(2):
    for x, y in loader:
        out, att = model(x)
        flat, target = out.view(-1, out.size(-1)), y.view(-1)
        loss = F.cross_entropy(flat, target, ignore_index=2)
        entropy = -(att * att.clamp_min(1e-9).log()).sum(-1).mean((0, 2))
        loss = loss - 0.01 * entropy.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        hits = (flat.argmax(-1) == target).float()
        b, t = y.shape
        grid = hits.view(b, t)
        turned = out.permute(1, 0, 2).reshape(-1, 3)
        print(f'{loss.item():.6f} {hits.mean().item():.5f}', [round(v, 4) for v in grid.mean(0).tolist()], [round(v, 4) for v in entropy.tolist()])
        print(f'{turned.norm(dim=1).mean().item():.5f} {out.reshape(b * t, -1).logsumexp(-1).mean().item():.5f} {out.view(-1).mean().item():.5f} {out.transpose(0, 1)[-1].mean().item():.5f}')
        print(f'{out.reshape(b, -1).mean(-1).max().item():.5f} {x.mT.mean((1, 2)).min().item():.5f} {out.swapaxes(0, 1).mean(1).norm().item():.5f} {x.mean([0, 1]).norm().item():.5f}')
