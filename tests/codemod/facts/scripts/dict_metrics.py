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


from collections import defaultdict

loader = DataLoader(data, batch_size=7, shuffle=True)
val = DataLoader(test_data, batch_size=5)
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)


def compute_metrics(out, y):
    p = out.argmax(1)
    return {'acc': (p == y).float().mean().item(), 'ce': F.cross_entropy(out, y).item(), 'n': y.size(0)}


def run(loader, train):
    logs = defaultdict(list)
    for x, y in loader:
        out = model(x)
        m = compute_metrics(out, y)
        if train:
            opt.zero_grad()
            F.cross_entropy(out, y).backward()
            opt.step()
        for k, v in m.items():
            logs[k].append(v)
    n = sum(logs['n'])
    return {k: sum(a * b for a, b in zip(v, logs['n'])) / n for k, v in logs.items() if k != 'n'}


for epoch in range(2):
    print('train', run(loader, True))
    with torch.no_grad():
        print('val', run(val, False))
