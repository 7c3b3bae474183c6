"""A gradient penalty between two batches."""

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
for a, b in train:
    eps = torch.rand(a.size(0), 1)
    mix = (eps * a + (1 - eps) * a.flip(1)).requires_grad_(True)
    g, = torch.autograd.grad(net(mix).sum(), mix, create_graph=True)
    pen = ((g.norm(dim=1) - 1) ** 2).mean()
    loss = F.cross_entropy(net(a), b) + pen
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{loss.item():.5f} {pen.item():.5f}")
