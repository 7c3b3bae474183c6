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


class VQ(nn.Module):
    def __init__(self, k=5, d=6):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(k, d))
        self.enc = nn.Linear(6, 6)
        self.dec = nn.Linear(6, 6)

    def forward(self, x):
        z = self.enc(x)
        dist = z.pow(2).sum(1, keepdim=True) - 2 * z @ self.embed.t() + self.embed.pow(2).sum(1)
        idx = dist.argmin(1)
        q = self.embed[idx]
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(q.detach(), z)
        q = z + (q - z).detach()
        avg = F.one_hot(idx, 5).float().mean(0)
        return self.dec(q), loss, idx


loader = DataLoader(data, batch_size=7, shuffle=True)
model = VQ()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    usage = torch.zeros(5)
    for x, _ in loader:
        recon, vq_loss, idx = model(x)
        loss = F.mse_loss(recon, x) + vq_loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        usage += torch.bincount(idx, minlength=5).float()
        usage.scatter_add_(0, idx, torch.ones_like(idx, dtype=torch.float))
        usage.index_add_(0, idx, torch.ones(len(idx)))
        print(f'{loss.item():.6f} {vq_loss.item():.6f}')
    print(usage.tolist(), torch.exp(-(usage / usage.sum() * torch.log(usage / usage.sum() + 1e-10)).sum()).item())
