"""Autocast, a scaler that is switched off, clipping after unscaling, DataParallel under another name."""

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
device = "cuda" if torch.cuda.is_available() else "cpu"
use = device == "cuda"
scaler = torch.amp.GradScaler(device, enabled=use)
net = nn.DataParallel(net)
best = float("inf")
for a, b in train:
    opt.zero_grad(set_to_none=True)
    with torch.autocast(device, dtype=torch.bfloat16, enabled=use):
        loss = F.cross_entropy(net(a), b)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    n = nn.utils.clip_grad_norm_(net.parameters(), 0.3)
    scaler.step(opt)
    scaler.update()
    print(f"{loss.item():.5f} {float(n):.5f}")
torch.save(net.module.state_dict(), "amp.pt")
