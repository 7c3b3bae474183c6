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


from functools import reduce

loader = DataLoader(data, batch_size=7, shuffle=True)
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)
step = lambda x, y: (opt.zero_grad(), (l := F.cross_entropy(model(x), y)).backward(), opt.step(), l.item())[-1]
for epoch in range(2):
    ls = [step(x, y) for x, y in loader]
    print(f'{sum(ls) / len(ls):.6f}', f'{reduce(lambda a, b: a + b, ls):.6f}')
    if (n := sum(len(y) for _, y in loader)) != 29:
        print('odd', n)
print(max(float(model(x).abs().max()) for x, _ in loader))
