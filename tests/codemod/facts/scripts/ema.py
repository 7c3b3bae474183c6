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


import copy

loader = DataLoader(data, batch_size=7, shuffle=True)
model = Net()
ema = copy.deepcopy(model)
for p in ema.parameters():
    p.requires_grad_(False)
opt = optim.Adam(model.parameters(), lr=1e-2)


def update_ema(ema_model, model, decay):
    with torch.no_grad():
        for e, p in zip(ema_model.parameters(), model.parameters()):
            e.mul_(decay).add_(p, alpha=1 - decay)


avg = 0.0
for epoch in range(2):
    for x, y in loader:
        out = model(x)
        with torch.no_grad():
            soft = ema(x).softmax(1)
        loss = F.cross_entropy(out, y) + 0.1 * ((out.softmax(1) - soft) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        update_ema(ema, model, 0.9)
        avg = 0.9 * avg + 0.1 * loss.item()
    print(f'{avg:.6f}')
    with torch.no_grad():
        n = sum((ema(x).argmax(1) == y).sum().item() for x, y in DataLoader(test_data, batch_size=5))
    print('ema', n / len(test_data), sum(p.sum().item() for p in ema.parameters()))
