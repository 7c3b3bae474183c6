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


class CenterLoss(nn.Module):
    def __init__(self, k, d):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(k, d))

    def forward(self, x, labels):
        batch_size = x.size(0)
        distmat = torch.pow(x, 2).sum(dim=1, keepdim=True).expand(batch_size, 3) + \
            torch.pow(self.centers, 2).sum(dim=1, keepdim=True).expand(3, batch_size).t()
        distmat = distmat.addmm(x, self.centers.t(), beta=1, alpha=-2)
        classes = torch.arange(3).long()
        labels = labels.unsqueeze(1).expand(batch_size, 3)
        mask = labels.eq(classes.expand(batch_size, 3))
        dist = distmat * mask.float()
        loss = dist.clamp(min=1e-12, max=1e+12).sum() / batch_size
        return loss


loader = DataLoader(data, batch_size=7, shuffle=True)
model, center = Net(), CenterLoss(3, 3)
opt = optim.Adam(model.parameters(), lr=1e-2)
opt_c = optim.SGD(center.parameters(), lr=0.5)
for epoch in range(2):
    for x, y in loader:
        f = model(x)
        loss = F.cross_entropy(f, y) + 0.1 * center(f, y)
        opt.zero_grad()
        opt_c.zero_grad()
        loss.backward()
        opt.step()
        opt_c.step()
        print(f'{loss.item():.6f}')
