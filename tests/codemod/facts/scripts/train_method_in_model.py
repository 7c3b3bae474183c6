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


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 3)
        self.opt = optim.SGD(self.parameters(), lr=0.1)
        self.crit = nn.CrossEntropyLoss()

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))

    def fit(self, loader, epochs):
        for e in range(epochs):
            tot = 0.
            for x, y in loader:
                self.opt.zero_grad()
                loss = self.crit(self(x), y)
                loss.backward()
                self.opt.step()
                tot += loss.item() / len(loader)
            print(e, f'{tot:.6f}')

    def score(self, loader):
        ok = n = 0
        with torch.no_grad():
            for x, y in loader:
                ok += (self.forward(x).argmax(1) == y).sum()
                n += len(y)
        return ok.item() / n


m = Model()
m.fit(DataLoader(data, batch_size=7, shuffle=True), 2)
print(m.score(DataLoader(test_data, batch_size=5)))
