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
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)
ema_mean, ema_var = torch.zeros(6), torch.ones(6)
prior = torch.zeros(3)
for epoch in range(2):
    for x, y in loader:
        ema_mean = 0.9 * ema_mean + 0.1 * x.mean(0)
        ema_var.mul_(0.9).add_(0.1 * x.var(0, unbiased=False))
        xn = (x - ema_mean) / (ema_var + 1e-5).sqrt()
        out = model(xn)
        p = out.softmax(-1)
        prior += p.detach().sum(0)
        avg = p.mean(0)
        balance = (avg * torch.log(avg * 3 + 1e-9)).sum()
        load = F.one_hot(out.argmax(-1), 3).float().mean(0)
        aux = 3 * (load * avg).sum()
        loss = F.cross_entropy(out, y) + 0.1 * balance + 0.01 * aux
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f} {balance.item():.6f} {aux.item():.5f}')
    print(prior.tolist(), ema_mean.sum().item())
