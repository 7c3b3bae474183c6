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


import sys


class tqdm:
    def __init__(self, it, **kw):
        self.it = it

    def __iter__(self):
        for b in self.it:
            yield b

    def set_postfix(self, **kw):
        print(' '.join(f'{k}={v}' for k, v in kw.items()))

    def set_description(self, s):
        print(s)


loader = DataLoader(data, batch_size=7, shuffle=True)
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    loop = tqdm(loader, leave=True)
    for x, y in loop:
        out = model(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        acc = (out.argmax(1) == y).float().mean()
        loop.set_description(f'Epoch [{epoch}]')
        loop.set_postfix(loss=loss.item(), acc=acc.item(), n=len(y))
