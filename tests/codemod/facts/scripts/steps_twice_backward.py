"""Two backward passes through one graph, and the norm of what they leave."""

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
    opt.zero_grad()
    out = net(a)
    ce = F.cross_entropy(out, b)
    reg = out.pow(2).mean()
    ce.backward(retain_graph=True)
    (0.1 * reg).backward()
    g = torch.cat([p.grad.flatten() for p in net.parameters()]).norm()
    opt.step()
    print(f"{ce.item():.5f} {reg.item():.5f} {g.item():.5f}")
