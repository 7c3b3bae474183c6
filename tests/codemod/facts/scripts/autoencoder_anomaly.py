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
val = DataLoader(test_data, batch_size=5)
model = nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 6))
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, _ in loader:
        rec = model(x + 0.1 * torch.randn_like(x))
        loss = nn.MSELoss()(rec, x) + 1e-3 * model[0](x).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f'{loss.item():.6f}')
scores, labels = [], []
with torch.no_grad():
    for x, y in val:
        err = ((model(x) - x) ** 2).mean(dim=1)
        scores.append(err)
        labels.append(y)
scores, labels = torch.cat(scores), torch.cat(labels)
thr = torch.quantile(scores, 0.8)
print(f'{thr.item():.6f} {scores.mean().item():.6f} {scores.std().item():.6f}', (scores > thr).sum().item(), len(scores))
print('per class', {int(c): round(scores[labels == c].mean().item(), 5) for c in labels.unique()})
