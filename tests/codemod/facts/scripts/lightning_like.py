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


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.logged = {}

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, idx):
        x, y = batch
        out = self(x)
        loss = F.cross_entropy(out, y)
        acc = (out.argmax(1) == y).float().mean()
        return {'loss': loss, 'acc': acc, 'n': len(y)}

    def validation_step(self, batch):
        x, y = batch
        out = self.net(x)
        return F.cross_entropy(out, y, reduction='sum'), (out.argmax(1) == y).sum(), len(y)

    def configure_optimizers(self):
        return optim.Adam(self.parameters(), lr=1e-2)


model = LM()
opt = model.configure_optimizers()
train, val = DataLoader(data, batch_size=7, shuffle=True), DataLoader(test_data, batch_size=5)
for epoch in range(2):
    for i, batch in enumerate(train):
        out = model.training_step(batch, i)
        opt.zero_grad()
        out['loss'].backward()
        opt.step()
        print(i, f"{out['loss'].item():.6f} {out['acc'].item():.4f} {out['n']}")
    with torch.no_grad():
        parts = [model.validation_step(b) for b in val]
    l, a, n = map(sum, zip(*parts))
    print(f'{(l / n).item():.6f} {(a / n).item():.5f} {n}')
