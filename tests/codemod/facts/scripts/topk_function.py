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


def topk_accuracy(k, outputs, targets):
    batch_size = targets.size(0)
    _, pred = outputs.topk(k, 1, True, True)
    pred = pred.t()
    correct = pred.eq(targets.view(1, -1))
    n_correct_elems = correct.float().sum().item()
    return n_correct_elems / batch_size


loader = DataLoader(data, batch_size=7, shuffle=True)
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)
acc1 = acc2 = 0
for x, y in loader:
    out = model(x)
    loss = F.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    acc1 += topk_accuracy(1, out, y)
    acc2 += topk_accuracy(2, out, y)
    top = (out.topk(2, dim=1)[1] == y[:, None]).any(dim=1).float().mean()
    per = [(out.argmax(1)[y == c] == c).sum().item() for c in range(3)]
    print(f'{top.item():.5f}', per, f'{acc1 / len(loader):.5f} {acc2 / len(loader):.5f}')
