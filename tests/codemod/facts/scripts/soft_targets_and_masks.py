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
opt = optim.Adam(model.parameters(), lr=1e-2)
w = torch.tensor([1., 2., 3.])
for epoch in range(2):
    for x, y in loader:
        out = model(x)
        pos = y == 1
        l1 = F.cross_entropy(out, F.one_hot(y, 3).float() * 0.9 + 0.1 / 3)
        l2 = F.cross_entropy(out[pos], y[pos]) if pos.any() else torch.tensor(0.)
        l3 = (F.cross_entropy(out, y, reduction='none') * w[y]).sum() / w[y].sum()
        l4 = F.binary_cross_entropy_with_logits(out, F.one_hot(y, 3).float(), pos_weight=w)
        l5 = F.mse_loss(out[~pos], torch.zeros_like(out[~pos]), reduction='sum') / max((~pos).sum().item(), 1)
        masked = out.masked_select(pos.unsqueeze(1)).mean() if pos.sum() > 0 else 0.
        loss = l1 + l2 + l3 + l4 + 0.1 * l5 + 0.01 * masked
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f} {pos.sum().item()}')
