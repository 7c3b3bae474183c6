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
model = Net(4)
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, y in loader:
        z = model(x)
        perm = torch.randperm(len(z))
        neg = z[perm]
        rolled = torch.roll(z, 1, 0)
        loss = F.relu(1 - (z - neg).pow(2).sum(1)).mean() + (z * rolled).sum(1).mean()
        loss = loss + torch.pdist(z).mean() + torch.cdist(z, z).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')
