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
opt = optim.AdamW(model.parameters(), lr=1e-2)
sched = optim.lr_scheduler.OneCycleLR(opt, max_lr=0.05, total_steps=10)
best, bad = 1e9, 0
for epoch in range(2):
    model.train()
    tl = torch.tensor(0.0)
    ta = torch.zeros(1)
    seen = torch.tensor(0)
    for x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y, label_smoothing=0.1)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        g = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        opt.step()
        sched.step()
        tl += loss.detach() * x.size(0)
        ta += (out.detach().argmax(1) == y).float().sum()
        seen += y.numel()
        print(f'{loss.item():.6f} {g:.6f} {sched.get_last_lr()[0]:.6f}')
    tl /= seen
    print(tl.item(), (ta / seen).item())
    if tl < best:
        best, bad = tl.item(), 0
        torch.save({'epoch': epoch, 'model': model.state_dict(), 'opt': opt.state_dict(), 'best': best}, 'ckpt.pt')
    else:
        bad += 1
