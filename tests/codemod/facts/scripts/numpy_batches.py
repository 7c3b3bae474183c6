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


Xn, Yn = np.random.RandomState(0).randn(29, 6).astype('float32'), np.random.RandomState(1).randint(0, 3, 29)


def minibatches(X, Y, n, shuffle=True):
    idx = np.arange(len(X))
    if shuffle:
        np.random.shuffle(idx)
    for s in range(0, len(X), n):
        pick = idx[s:s + n]
        yield torch.from_numpy(X[pick]), torch.from_numpy(Y[pick])


np.random.seed(0)
model = Net()
opt = optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    tot = n = 0
    for x, y in minibatches(Xn, Yn, 8):
        out = model(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += (out.argmax(1) == y).sum().item()
        n += len(y)
    print(epoch, f'{loss.item():.6f} {tot / n:.4f}')
