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


class MT(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 16)
        self.cls, self.reg = nn.Linear(16, 3), nn.Linear(16, 1)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.cls(h), self.reg(h)


loader = DataLoader(TensorDataset(torch.randn(29, 6), torch.randint(0, 3, (29,)), torch.randn(29, 1)), batch_size=7, shuffle=True)
model = MT()
opt = optim.Adam(model.parameters(), lr=1e-2)
ce, mse = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5])), nn.MSELoss()
for epoch in range(2):
    meters = {'ce': [], 'mse': []}
    for x, y, r in loader:
        logits, pred = model(x)
        losses = {'ce': ce(logits, y), 'mse': mse(pred, r)}
        precision = torch.exp(-model.log_vars)
        loss = sum(precision[i] * l + model.log_vars[i] for i, l in enumerate(losses.values()))
        opt.zero_grad()
        loss.backward()
        opt.step()
        for k, v in losses.items():
            meters[k].append(v.item())
    print({k: round(sum(v) / len(v), 5) for k, v in meters.items()}, round(loss.item(), 5))
