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
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)
metrics = torch.zeros(3, len(data))
confusion = torch.zeros(3, 3)
for epoch in range(2):
    seen = 0
    for i, (x, y) in enumerate(loader):
        out = model(x)
        loss = F.cross_entropy(out, y, reduction='none')
        opt.zero_grad()
        loss.mean().backward()
        opt.step()
        start, end = i * loader.batch_size, i * loader.batch_size + y.size(0)
        metrics[0, start:end] = y
        metrics[1, start:end] = out.argmax(1).detach()
        metrics[2, start:end] = loss.detach()
        idx = y * 3 + out.argmax(1)
        confusion += torch.bincount(idx, minlength=9).reshape(3, 3)
        seen += len(x)
    print(f'{metrics[2].mean().item():.6f} {(metrics[0] == metrics[1]).float().mean().item():.5f}', seen)
print(confusion.tolist())
