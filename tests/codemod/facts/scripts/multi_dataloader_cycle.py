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


from itertools import cycle, islice, chain

a = DataLoader(data, batch_size=7, shuffle=True)
b = DataLoader(TensorDataset(torch.randn(13, 6), torch.randint(0, 3, (13,))), batch_size=4, shuffle=True)
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for (x1, y1), (x2, y2) in zip(a, cycle(b)):
        x, y = torch.cat([x1, x2]), torch.cat([y1, y2])
        out = model(x)
        loss = F.cross_entropy(out, y) + 0.1 * F.mse_loss(model(x1), torch.zeros(len(x1), 3))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f} {(out.argmax(1) == y).float().mean().item():.5f} {len(x)}')
for x, y in islice(a, 2):
    print(F.cross_entropy(model(x), y).item())
