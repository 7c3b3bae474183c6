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


def pairwise_distances(x):
    dot = torch.mm(x, x.t())
    sq = torch.diag(dot)
    d = sq.unsqueeze(0) - 2.0 * dot + sq.unsqueeze(1)
    return F.relu(d)


def batch_hard(labels, emb, margin=0.5):
    d = pairwise_distances(emb)
    same = labels.unsqueeze(0) == labels.unsqueeze(1)
    eye = torch.eye(labels.size(0)).bool()
    pos = (d * (same & ~eye).float()).max(1, keepdim=True)[0]
    mx = d.max(1, keepdim=True)[0]
    neg = (d + mx * same.float()).min(1, keepdim=True)[0]
    return F.relu(pos - neg + margin).mean()


loader = DataLoader(data, batch_size=7, shuffle=True)
model = Net(4)
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, y in loader:
        loss = batch_hard(y, model(x))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')
