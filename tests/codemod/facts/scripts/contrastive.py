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


class Enc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def info_nce(z1, z2, t=0.5):
    n = z1.shape[0]
    z = torch.cat([z1, z2], dim=0)
    sim = z @ z.T / t
    mask = torch.eye(2 * n, dtype=torch.bool)
    sim = sim.masked_fill(mask, -9e15)
    labels = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, labels)


pairs = TensorDataset(torch.randn(29, 6), torch.randn(29, 6))
loader = DataLoader(pairs, batch_size=7, shuffle=True)
model = Enc()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for a, b in loader:
        loss = info_nce(model(a), model(b))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')
