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
np.random.seed(2)
for epoch in range(2):
    for x, y in loader:
        bs = x.shape[0]
        n1 = torch.normal(0, 1, size=(bs, 6))
        n2 = torch.empty(bs, 6).uniform_(-1, 1)
        n3 = torch.zeros_like(x).normal_()
        n4 = torch.from_numpy(np.random.normal(0, 1, (bs, 6))).float()
        n5 = torch.rand(x.shape) + torch.randn(x.size()) + x.new_zeros(x.shape).normal_()
        keep = torch.bernoulli(torch.full((bs, 1), 0.8))
        drop = (torch.rand(bs, 1) > 0.5).float()
        out = model((x + 0.1 * (n1 + n2 + n3 + n4 + n5)) * keep * drop)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')
