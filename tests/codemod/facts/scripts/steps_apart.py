"""Forward, backward and step in functions of their own; a wrapper steps the optimizer and sets its rate."""

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
class Noam:
    def __init__(self, inner, warm):
        self.inner, self.warm, self.n = inner, warm, 0
    def zero_grad(self):
        self.inner.zero_grad()
    def step_and_update_lr(self):
        self.n += 1
        for group in self.inner.param_groups:
            group["lr"] = 0.2 * min(1.0, self.n / self.warm)
        self.inner.step()
def forward_pass(batch):
    a, b = batch
    return F.cross_entropy(net(a), b)
def backward_pass(loss):
    loss.backward()
def step(batch):
    sched.zero_grad()
    loss = forward_pass(batch)
    backward_pass(loss)
    sched.step_and_update_lr()
    return loss
sched = Noam(opt, 6)
plateau = optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0)
for epoch in range(3):
    for batch in train:
        loss = step(batch)
        print(f"{loss.item():.5f}")
    with torch.no_grad():
        v = sum(F.cross_entropy(net(a), b, reduction="sum").item() for a, b in val) / len(val.dataset)
    plateau.step(v)
    print(f"val {v:.5f} {opt.param_groups[0]['lr']:.5f}")
