import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(29, 6), torch.randint(0, 3, (29,)))
test_data = TensorDataset(torch.randn(17, 6), torch.randint(0, 3, (17,)))


class Net(nn.Module):
    def __init__(self, out=3):
        super().__init__()
        self.fc1 = nn.Linear(6, 16)
        self.fc2 = nn.Linear(16, out)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


loader = DataLoader(data, batch_size=7, shuffle=True)
nets = nn.ModuleList([Net() for _ in range(3)])
opt = optim.Adam(nets.parameters(), lr=1e-2)
for epoch in range(2):
    for x, y in loader:
        outs = [n(x) for n in nets]
        losses = [F.cross_entropy(o, y) for o in outs]
        loss = sum(losses) / len(losses)
        mean = torch.stack(outs).mean(0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}', [round(l.item(), 5) for l in losses], (mean.argmax(1) == y).sum().item(),
              f'{torch.stack(losses).mean().item():.6f} {torch.stack([o.softmax(1) for o in outs]).var(0).mean().item():.6f}')
