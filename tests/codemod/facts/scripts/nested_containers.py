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
models = {'a': Net(), 'b': Net()}
opts = {k: optim.Adam(m.parameters(), lr=1e-2) for k, m in models.items()}
stats = {k: {'loss': 0.0, 'n': 0} for k in models}
for epoch in range(2):
    for x, y in loader:
        for k in models:
            loss = F.cross_entropy(models[k](x), y)
            opts[k].zero_grad()
            loss.backward()
            opts[k].step()
            stats[k]['loss'] += loss.item() * len(y)
            stats[k]['n'] += len(y)
    print({k: round(s['loss'] / s['n'], 5) for k, s in stats.items()})
