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


def rand_bbox(n, lam):
    cut = int(n * math.sqrt(1. - lam))
    c = np.random.randint(n)
    return max(c - cut // 2, 0), min(c + cut // 2, n)


np.random.seed(3)
imgs = TensorDataset(torch.randn(29, 1, 6, 6), torch.randint(0, 3, (29,)))
loader = DataLoader(imgs, batch_size=7, shuffle=True)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for input, target in loader:
        r = np.random.rand(1)
        if r < 0.7:
            lam = np.random.beta(1.0, 1.0)
            rand_index = torch.randperm(input.size()[0])
            target_a = target
            target_b = target[rand_index]
            b1, b2 = rand_bbox(6, lam)
            input[:, :, b1:b2, b1:b2] = input[rand_index, :, b1:b2, b1:b2]
            lam = 1 - ((b2 - b1) ** 2 / (input.size()[-1] * input.size()[-2]))
            output = model(input)
            loss = F.cross_entropy(output, target_a) * lam + F.cross_entropy(output, target_b) * (1. - lam)
        else:
            output = model(input)
            loss = F.cross_entropy(output, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')
