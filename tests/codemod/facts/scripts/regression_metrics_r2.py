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


loader = DataLoader(TensorDataset(torch.randn(29, 6), torch.randn(29)), batch_size=7, shuffle=True)
model = Net(1)
opt = optim.RMSprop(model.parameters(), lr=1e-2)


def r2_loss(output, target):
    target_mean = torch.mean(target)
    ss_tot = torch.sum((target - target_mean) ** 2)
    ss_res = torch.sum((target - output) ** 2)
    return 1 - ss_res / ss_tot


def pearson(a, b):
    va, vb = a - a.mean(), b - b.mean()
    return (va * vb).sum() / (torch.sqrt((va ** 2).sum()) * torch.sqrt((vb ** 2).sum()))


def ccc(a, b):
    return 2 * torch.mean((a - a.mean()) * (b - b.mean())) / (a.var() + b.var() + (a.mean() - b.mean()) ** 2)


for epoch in range(2):
    for x, y in loader:
        out = model(x).flatten()
        loss = F.mse_loss(out, y) - 0.1 * pearson(out, y) if len(y) > 1 else F.mse_loss(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        mape = torch.mean(torch.abs((y - out) / y)) * 100
        if len(y) > 1:
            print(f'{loss.item():.6f} {r2_loss(out, y).item():.5f} {ccc(out, y).item():.5f} {mape.item():.4f}')
