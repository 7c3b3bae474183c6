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


def build():
    return Net()


teacher, student = build(), build()
loader = DataLoader(data, batch_size=7, shuffle=True)
opt_t = optim.Adam(teacher.parameters(), lr=1e-2)
for x, y in loader:
    opt_t.zero_grad()
    F.cross_entropy(teacher(x), y).backward()
    opt_t.step()
opt_s = optim.Adam(student.fc2.parameters(), lr=1e-2)
for x, y in loader:
    with torch.no_grad():
        t = teacher(x)
    loss = F.kl_div(F.log_softmax(student(x), 1), t.softmax(1), reduction='batchmean')
    opt_s.zero_grad()
    loss.backward()
    opt_s.step()
    print(f'{loss.item():.6f}')
