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


loader = DataLoader(TensorDataset(torch.randn(13, 3, 6, 6), torch.randint(0, 3, (13, 6, 6))), batch_size=5, shuffle=True)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
opt = optim.Adam(model.parameters(), lr=1e-2)


def fast_hist(a, b, n):
    k = (a >= 0) & (a < n)
    return np.bincount(n * a[k].astype(int) + b[k], minlength=n ** 2).reshape(n, n)


def iou(pred, target, n=3):
    ious = []
    pred, target = pred.view(-1), target.view(-1)
    for cls in range(n):
        p, t = pred == cls, target == cls
        inter = (p & t).sum().float()
        union = (p | t).sum().float()
        ious.append((inter / union).item() if union > 0 else float('nan'))
    return ious


for epoch in range(2):
    hist = np.zeros((3, 3))
    pix = tot = 0
    for x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y, weight=torch.tensor([0.5, 1.0, 2.0]))
        opt.zero_grad()
        loss.backward()
        opt.step()
        pred = out.argmax(1)
        hist += fast_hist(y.numpy().flatten(), pred.numpy().flatten(), 3)
        pix += (pred == y).sum().item()
        tot += y.numel()
        print(f'{loss.item():.6f}', [round(v, 4) for v in iou(pred, y)])
    print(np.round(np.diag(hist) / (hist.sum(1) + hist.sum(0) - np.diag(hist)), 4), pix / tot)
