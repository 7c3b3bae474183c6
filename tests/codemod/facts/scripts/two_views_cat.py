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


class Pair(Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(29, 6), torch.randint(0, 3, (29,))

    def __len__(self):
        return 29

    def __getitem__(self, i):
        return (self.x[i], self.x[i] + 0.1), self.y[i]


loader = DataLoader(Pair(), batch_size=7, shuffle=True)
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for images, labels in loader:
        images = torch.cat([images[0], images[1]], dim=0)
        bsz = labels.shape[0]
        features = F.normalize(model(images), dim=1)
        f1, f2 = torch.split(features, [bsz, bsz], dim=0)
        features = torch.cat([f1.unsqueeze(1), f2.unsqueeze(1)], dim=1)
        loss = ((features[:, 0] - features[:, 1]) ** 2).sum(1).mean() + F.cross_entropy(f1, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')
