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


def make_trainer(model, opt, criterion):
    def step(batch):
        x, y = batch
        opt.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        opt.step()
        return loss.item()

    return step


def evaluate(model, loader, metric):
    model.eval()
    with torch.no_grad():
        return sum(metric(model(x), y) * len(x) for x, y in loader) / len(loader.dataset)


acc = lambda out, y: (out.argmax(-1) == y).float().mean().item()
model = Net()
trainer = make_trainer(model, optim.Adam(model.parameters(), lr=1e-2), nn.CrossEntropyLoss())
for epoch in range(2):
    losses = [trainer(b) for b in DataLoader(data, batch_size=7, shuffle=True)]
    print(f'{sum(losses) / len(losses):.6f}')
    print(f'{evaluate(model, DataLoader(test_data, batch_size=5), acc):.6f}')
    if (m := max(losses)) > 0.5:
        print(f'max {m:.6f}')
