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
model = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 6))
opt = optim.Adam(model.parameters(), lr=1e-2)
T = 10
a = torch.linspace(0.99, 0.1, T)
for epoch in range(2):
    for x, _ in loader:
        n = x.size(0)
        e = torch.randn_like(x)
        t = torch.randint(low=0, high=T, size=(n // 2 + 1,))
        t = torch.cat([t, T - t - 1], dim=0)[:n]
        at = a.index_select(0, t).view(-1, 1)
        xt = x * at.sqrt() + e * (1.0 - at).sqrt()
        out = model(torch.cat([xt, t[:, None] / T], dim=1))
        loss = (e - out).square().sum(dim=1).mean(dim=0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')
