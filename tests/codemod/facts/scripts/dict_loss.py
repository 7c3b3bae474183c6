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


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.aux = nn.Linear(6, 1)

    def forward(self, x, y):
        out = self.net(x)
        cls = F.cross_entropy(out, y)
        reg = F.mse_loss(self.aux(x).squeeze(-1), y.float())
        return {'loss_cls': cls, 'loss_reg': 0.1 * reg}, out


model = M()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, y in DataLoader(data, batch_size=7, shuffle=True):
        losses, out = model(x, y)
        loss = sum(losses.values())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{loss.item():.6f} {losses['loss_cls'].item():.6f}", ' '.join(f'{k}={v.item():.5f}' for k, v in losses.items()))
