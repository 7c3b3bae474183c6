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


class Trip(Dataset):
    def __init__(self):
        self.a, self.p, self.n = torch.randn(23, 6), torch.randn(23, 6), torch.randn(23, 6)

    def __len__(self):
        return 23

    def __getitem__(self, i):
        return self.a[i], self.p[i], self.n[i]


loader = DataLoader(Trip(), batch_size=6, shuffle=True)
model = Net(8)
opt = optim.Adam(model.parameters(), lr=1e-2)
triplet = nn.TripletMarginLoss(margin=1.0)
for epoch in range(2):
    for a, p, n in loader:
        ea, ep, en = model(a), model(p), model(n)
        loss = triplet(ea, ep, en)
        dp = (ea - ep).pow(2).sum(1)
        dn = (ea - en).pow(2).sum(1)
        hand = F.relu(dp - dn + 0.5).mean()
        hard = torch.clamp(0.2 + F.pairwise_distance(ea, ep) - F.pairwise_distance(ea, en), min=0)
        loss = loss + hand + hard.sum() / len(hard)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f} {(dp < dn).float().mean().item():.6f}')
