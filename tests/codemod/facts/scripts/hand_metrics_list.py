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
model = Net(1)
opt = optim.Adam(model.parameters(), lr=1e-2)
history = {'loss': [], 'acc': []}
for epoch in range(2):
    batch_losses, correct, n = [], 0, 0
    for x, y in loader:
        t = (y > 0).float().unsqueeze(1)
        p = torch.sigmoid(model(x))
        loss = -(t * torch.log(p + 1e-7) + (1 - t) * torch.log(1 - p + 1e-7)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        batch_losses += [loss.item()] * x.shape[0]
        correct += ((p > 0.5) == (t > 0.5)).sum().item()
        n += t.numel()
    history['loss'].append(sum(batch_losses) / len(batch_losses))
    history['acc'].append(correct / n)
    print('epoch', epoch, {k: round(v[-1], 5) for k, v in history.items()}, len(batch_losses))
