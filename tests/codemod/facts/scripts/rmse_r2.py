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


loader = DataLoader(TensorDataset(torch.randn(29, 6), torch.randn(29, 1)), batch_size=7, shuffle=True)
model = Net(1)
opt = optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.MSELoss()
eps = 1e-8
for epoch in range(2):
    sse, sst, n = 0.0, 0.0, 0
    for x, y in loader:
        pred = model(x)
        mse = criterion(pred, y)
        rmse = torch.sqrt(mse + eps)
        mae = torch.mean(torch.abs(pred - y))
        smape = 2.0 * torch.mean(torch.abs(pred - y) / (torch.abs(pred) + torch.abs(y)))
        logcosh = torch.mean(torch.log(torch.cosh(pred - y + 1e-12)))
        huber = F.smooth_l1_loss(pred, y)
        l2 = sum(p.pow(2).sum() for p in model.parameters())
        loss = rmse + 0.1 * mae + 0.1 * smape + 0.1 * logcosh + huber + 1e-4 * l2
        opt.zero_grad()
        loss.backward()
        opt.step()
        sse += ((pred - y) ** 2).sum().item()
        sst += ((y - y.mean()) ** 2).sum().item()
        n += y.shape[0]
        print(f'{loss.item():.6f} {y.std().item():.6f} {pred.max().item():.6f}')
    print(f'r2 {1 - sse / sst:.6f} rmse {math.sqrt(sse / n):.6f}')
