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


seqs = torch.randn(29, 5, 6)
lens = torch.randint(1, 6, (29,))
targets = torch.randn(29, 5, 3)
loader = DataLoader(TensorDataset(seqs, lens, targets), batch_size=7, shuffle=True)
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, n, t in loader:
        mask = torch.arange(x.size(1))[None, :] < n[:, None]
        out = model(x)
        per = ((out - t) ** 2).mean(-1)
        loss = (per * mask).sum() / mask.sum()
        loss2 = (per * mask.float()).sum() / (mask.float().sum() + 1e-8)
        sel = per[mask].mean()
        loss = loss + loss2 + sel
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f} {mask.sum().item()} {mask.float().mean().item():.6f}')
