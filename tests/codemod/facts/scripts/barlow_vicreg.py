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


def off_diagonal(x):
    n, m = x.shape
    return x.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten()


loader = DataLoader(TensorDataset(torch.randn(29, 6), torch.randn(29, 6)), batch_size=7, shuffle=True)
model = Net(4)
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for a, b in loader:
        x, y = model(a), model(b)
        repr_loss = F.mse_loss(x, y)
        x = x - x.mean(dim=0)
        y = y - y.mean(dim=0)
        std_x = torch.sqrt(x.var(dim=0) + 0.0001)
        std_y = torch.sqrt(y.var(dim=0) + 0.0001)
        std_loss = torch.mean(F.relu(1 - std_x)) / 2 + torch.mean(F.relu(1 - std_y)) / 2
        cov_x = (x.T @ x) / (x.shape[0] - 1)
        cov_y = (y.T @ y) / (len(y) - 1)
        cov_loss = off_diagonal(cov_x).pow_(2).sum().div(4) + off_diagonal(cov_y).pow_(2).sum().div(4)
        loss = repr_loss + std_loss + cov_loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')
