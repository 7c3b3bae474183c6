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


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(6, 8)
        self.mu, self.lv = nn.Linear(8, 2), nn.Linear(8, 2)
        self.dec = nn.Linear(2, 6)

    def encode(self, x):
        h = torch.tanh(self.enc(x))
        return self.mu(h), self.lv(h)

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.dec(mu), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.mse_loss(recon_x, x, reduction='sum')
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


loader = DataLoader(data, batch_size=7, shuffle=True)
model = VAE()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    train_loss = 0
    for batch_idx, (x, _) in enumerate(loader):
        opt.zero_grad()
        recon, mu, logvar = model(x)
        loss = loss_function(recon, x, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        opt.step()
        print('Train [{}/{}]\tLoss: {:.6f}'.format(batch_idx * len(x), len(loader.dataset), loss.item() / len(x)))
    print('====> Average loss: {:.4f}'.format(train_loss / len(loader.dataset)))
with torch.no_grad():
    z = torch.randn(4, 2)
    sample = model.dec(z)
    print(sample.sum().item())
