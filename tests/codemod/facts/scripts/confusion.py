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
for x, y in loader:
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()
conf = torch.zeros(3, 3)
cm = np.zeros((3, 3), dtype=int)
hist = torch.zeros(9, dtype=torch.long)
with torch.no_grad():
    for x, y in DataLoader(test_data, batch_size=5):
        pred = model(x).argmax(1)
        for t, p in zip(y.view(-1), pred.view(-1)):
            conf[t.long(), p.long()] += 1
        np.add.at(cm, (y.numpy(), pred.numpy()), 1)
        hist += torch.bincount(3 * y + pred, minlength=9)
print(conf.tolist())
print(cm.tolist())
print(hist.reshape(3, 3).tolist())
print((conf.diag() / conf.sum(1)).tolist())
