"""Batches of a loader first, then all samples of other tensors at once, which every process computes as a whole."""

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


X, Y = torch.randn(29, 6), torch.randint(0, 3, (29,))
model = Net()
opt = optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=8):
    opt.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    print(f'{loss.item():.6f}')
for epoch in range(5):
    out = model(X)
    loss = F.cross_entropy(out, Y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    acc = (out.argmax(1) == Y).float().mean()
    print(epoch, f'{loss.item():.6f} {acc:.4f}')
