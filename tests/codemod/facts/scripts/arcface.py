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


class ArcMargin(nn.Module):
    def __init__(self, d, k, s=8.0, m=0.3):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(k, d))
        self.s, self.m = s, m

    def forward(self, x, label):
        cosine = F.linear(F.normalize(x), F.normalize(self.weight))
        sine = torch.sqrt((1.0 - torch.pow(cosine, 2)).clamp(0, 1))
        phi = cosine * math.cos(self.m) - sine * math.sin(self.m)
        one_hot = torch.zeros(cosine.size())
        one_hot.scatter_(1, label.view(-1, 1).long(), 1)
        return ((one_hot * phi) + ((1.0 - one_hot) * cosine)) * self.s


loader = DataLoader(data, batch_size=7, shuffle=True)
model, metric = Net(8), ArcMargin(8, 3)
opt = optim.SGD([{'params': model.parameters()}, {'params': metric.parameters()}], lr=0.1)
for epoch in range(2):
    for x, y in loader:
        out = metric(model(x), y)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        acc = np.mean((np.argmax(out.data.cpu().numpy(), axis=1) == y.data.cpu().numpy()).astype(int))
        print(f'{loss.item():.6f} {acc:.4f}')
