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


T = 20
betas = torch.linspace(1e-4, 0.02, T)
alphas_bar = torch.cumprod(1 - betas, dim=0)


class Eps(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(T, 6)
        self.net = nn.Sequential(nn.Linear(6, 16), nn.SiLU(), nn.Linear(16, 6))

    def forward(self, x, t):
        return self.net(x + self.emb(t))


def q_sample(x0, t, noise):
    a = alphas_bar[t].view(-1, 1)
    return a.sqrt() * x0 + (1 - a).sqrt() * noise


loader = DataLoader(data, batch_size=7, shuffle=True)
model = Eps()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, _ in loader:
        t = torch.randint(0, T, (x.shape[0],), device=x.device).long()
        noise = torch.randn_like(x)
        pred = model(q_sample(x, t, noise), t)
        loss = F.mse_loss(pred, noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')


@torch.no_grad()
def sample(n):
    x = torch.randn(n, 6)
    for i in reversed(range(T)):
        t = torch.full((n,), i, dtype=torch.long)
        e = model(x, t)
        x = (x - betas[i] / (1 - alphas_bar[i]).sqrt() * e) / (1 - betas[i]).sqrt()
        if i > 0:
            x = x + betas[i].sqrt() * torch.randn_like(x)
    return x


print(sample(4).sum().item())
