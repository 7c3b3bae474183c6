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


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(6, 8)
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x, y):
        u, v = F.normalize(self.a(x), dim=-1), F.normalize(self.b(y), dim=-1)
        return u, v, self.scale.exp()


loader = DataLoader(TensorDataset(torch.randn(29, 6), torch.randn(29, 6)), batch_size=7, shuffle=True)
model = Two()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, y in loader:
        u, v, scale = model(x, y)
        logits = scale * u @ v.t()
        labels = torch.arange(logits.size(0))
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f} {scale.item():.6f}')
