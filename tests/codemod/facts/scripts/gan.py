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


G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6))
D = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid())
loader = DataLoader(data, batch_size=7, shuffle=True)
optG = optim.Adam(G.parameters(), lr=1e-3)
optD = optim.Adam(D.parameters(), lr=1e-3)
bce = nn.BCELoss()
fixed_noise = torch.randn(5, 4)
real_label, fake_label = 1., 0.
for epoch in range(2):
    for i, (real, _) in enumerate(loader):
        D.zero_grad()
        b_size = real.size(0)
        label = torch.full((b_size,), real_label)
        output = D(real).view(-1)
        errD_real = bce(output, label)
        errD_real.backward()
        D_x = output.mean().item()
        noise = torch.randn(b_size, 4)
        fake = G(noise)
        label.fill_(fake_label)
        output = D(fake.detach()).view(-1)
        errD_fake = bce(output, label)
        errD_fake.backward()
        D_G_z1 = output.mean().item()
        errD = errD_real + errD_fake
        optD.step()
        G.zero_grad()
        label.fill_(real_label)
        output = D(fake).view(-1)
        errG = bce(output, label)
        errG.backward()
        D_G_z2 = output.mean().item()
        optG.step()
        print('[%d][%d/%d] Loss_D: %.4f Loss_G: %.4f D(x): %.4f D(G(z)): %.4f / %.4f' % (
            epoch, i, len(loader), errD.item(), errG.item(), D_x, D_G_z1, D_G_z2))
    with torch.no_grad():
        fake = G(fixed_noise).detach().cpu()
    print(fake.sum().item())
