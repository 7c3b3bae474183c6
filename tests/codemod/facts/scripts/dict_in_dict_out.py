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


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.reg = nn.Linear(6, 1)

    def forward(self, batch):
        return {'logits': self.net(batch['x']), 'value': self.reg(batch['x']).squeeze(-1)}

    def loss(self, out, batch):
        ce = F.cross_entropy(out['logits'], batch['y'])
        mse = F.mse_loss(out['value'], batch['v'])
        return {'total': ce + 0.5 * mse, 'ce': ce, 'mse': mse}


class D(Dataset):
    def __init__(self):
        self.x, self.y, self.v = torch.randn(29, 6), torch.randint(0, 3, (29,)), torch.randn(29)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return dict(x=self.x[i], y=self.y[i], v=self.v[i])


loader = DataLoader(D(), batch_size=7, shuffle=True)
model = M()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    sums = {}
    for batch in loader:
        out = model(batch)
        losses = model.loss(out, batch)
        opt.zero_grad()
        losses['total'].backward()
        opt.step()
        for k in losses:
            sums[k] = sums.get(k, 0.0) + losses[k].item() * len(batch['y'])
    print({k: round(v / 29, 5) for k, v in sums.items()})
