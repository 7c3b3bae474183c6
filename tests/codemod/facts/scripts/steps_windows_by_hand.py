"""Gradients added up over windows, the last one shorter, the loss divided in place."""

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(3)
x = torch.randn(45, 6)
y = (x.sum(1) > 0).long() + (x[:, 0] > 1).long()
train = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
val = DataLoader(TensorDataset(x[:21], y[:21]), batch_size=5)
net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
k = 4
for epoch in range(2):
    opt.zero_grad()
    for i, (a, b) in enumerate(train):
        last = i == len(train) - 1
        loss = F.cross_entropy(net(a), b)
        shown = loss.item()
        loss /= k
        loss.backward()
        if (i + 1) % k == 0 or last:
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
            opt.zero_grad()
        print(epoch, i, f"{shown:.5f}")
