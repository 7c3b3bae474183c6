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


def gaussian_kernel(x, y):
    d = ((x.unsqueeze(1) - y.unsqueeze(0)) ** 2).sum(2)
    return torch.exp(-d)


def mmd(x, y):
    return gaussian_kernel(x, x).mean() + gaussian_kernel(y, y).mean() - 2 * gaussian_kernel(x, y).mean()


src = DataLoader(data, batch_size=7, shuffle=True)
tgt = DataLoader(TensorDataset(torch.randn(22, 6)), batch_size=5, shuffle=True)
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for (xs, ys), (xt,) in zip(src, tgt):
        fs, ft = model(xs), model(xt)
        loss = F.cross_entropy(fs, ys) + mmd(fs, ft)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')
