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


G, D = Net(6), Net(1)
optG, optD = optim.Adam(G.parameters(), lr=1e-3), optim.Adam(D.parameters(), lr=1e-3)
loader = DataLoader(data, batch_size=7, shuffle=True)
for epoch in range(2):
    for i, (real, _) in enumerate(loader):
        z = torch.randn(real.shape[0], 6)
        fake = G(z).detach()
        eps = torch.rand(real.size(0), 1)
        inter = (eps * real + (1 - eps) * fake).requires_grad_(True)
        d_inter = D(inter)
        grad = torch.autograd.grad(outputs=d_inter, inputs=inter, grad_outputs=torch.ones_like(d_inter),
                                   create_graph=True, retain_graph=True)[0]
        gp = ((grad.view(grad.size(0), -1).norm(2, dim=1) - 1) ** 2).mean()
        lossD = D(fake).mean() - D(real).mean() + 10 * gp
        optD.zero_grad()
        lossD.backward()
        optD.step()
        if i % 2 == 0:
            lossG = -D(G(torch.randn(len(real), 6))).mean()
            optG.zero_grad()
            lossG.backward()
            optG.step()
        print(f'{lossD.item():.6f} {lossG.item():.6f} {gp.item():.6f}')
