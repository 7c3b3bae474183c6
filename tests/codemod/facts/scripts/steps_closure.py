"""LBFGS with a closure."""

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
opt = optim.LBFGS(net.parameters(), lr=0.5, max_iter=4)
for a, b in train:
    def closure():
        opt.zero_grad()
        loss = F.cross_entropy(net(a), b)
        loss.backward()
        return loss
    v = opt.step(closure)
    print(f"{v.item():.5f}")
