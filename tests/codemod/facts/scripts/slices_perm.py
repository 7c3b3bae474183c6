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
batch_size = 8
for epoch in range(2):
    perm = torch.randperm(X.size(0))
    epoch_loss = 0
    for i in range(0, X.size(0), batch_size):
        idx = perm[i:i + batch_size]
        bx, by = X[idx], Y[idx]
        loss = F.cross_entropy(model(bx), by)
        opt.zero_grad()
        loss.backward()
        opt.step()
        epoch_loss += loss.item() * len(bx)
    print(epoch, f'{epoch_loss / len(X):.6f}')
