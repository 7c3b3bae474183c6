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


from torch.distributions import Normal, kl_divergence


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(6, 4), nn.Linear(2, 6)

    def encode(self, x):
        mu, ls = self.enc(x).chunk(2, dim=-1)
        return Normal(mu, ls.exp())

    def forward(self, x):
        q = self.encode(x)
        z = q.mean
        return self.dec(z), q


loader = DataLoader(data, batch_size=7, shuffle=True)
model = VAE()
opt = optim.Adam(model.parameters(), lr=1e-2)
prior = Normal(0., 1.)
for epoch in range(2):
    for x, _ in loader:
        recon, q = model(x)
        kl = kl_divergence(q, prior).sum(1).mean()
        nll = -Normal(recon, 1.0).log_prob(x).sum(-1).mean()
        loss = nll + kl
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f} {kl.item():.6f}')
