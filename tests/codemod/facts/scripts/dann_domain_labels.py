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


src = DataLoader(data, batch_size=7, shuffle=True)
tgt = DataLoader(TensorDataset(torch.randn(29, 6)), batch_size=7, shuffle=True)
feat = nn.Linear(6, 8)
cls, dom = nn.Linear(8, 3), nn.Linear(8, 2)
opt = optim.Adam(list(feat.parameters()) + list(cls.parameters()) + list(dom.parameters()), lr=1e-2)
for epoch in range(2):
    for (xs, ys), (xt,) in zip(src, tgt):
        fs, ft = torch.relu(feat(xs)), torch.relu(feat(xt))
        domain = torch.cat([torch.zeros(len(xs)), torch.ones(len(xt))]).long()
        loss = F.cross_entropy(cls(fs), ys) + F.cross_entropy(dom(torch.cat([fs, ft])), domain)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')
