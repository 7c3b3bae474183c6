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


loader = DataLoader(data, batch_size=7, shuffle=True)
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)
w0 = {n: p.clone().detach() for n, p in model.named_parameters()}
fisher = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
for epoch in range(2):
    for x, y in loader:
        out = model(x)
        ce = F.cross_entropy(out, y)
        l1 = sum(torch.norm(p, 1) for p in model.parameters())
        l2 = torch.tensor(0.)
        for name, w in model.named_parameters():
            if 'bias' not in name:
                l2 = l2 + (w ** 2).sum()
        ewc = sum((fisher[n] * (p - w0[n]) ** 2).sum() for n, p in model.named_parameters())
        orth = torch.norm(model.fc1.weight @ model.fc1.weight.t() - torch.eye(16))
        ent = -(out.softmax(1) * out.log_softmax(1)).sum(1).mean()
        loss = ce + 1e-4 * l1 + 1e-3 * l2 + ewc + 1e-3 * orth - 0.01 * ent
        opt.zero_grad()
        loss.backward()
        for n, p in model.named_parameters():
            fisher[n] += p.grad.detach() ** 2
        opt.step()
        print(f'{loss.item():.6f} {l1.item():.5f} {orth.item():.5f}')
    total = sum(p.numel() for p in model.parameters())
    print(total, f'{sum(p.norm().item() for p in model.parameters()):.5f}', f'{sum(f.sum().item() for f in fisher.values()):.6f}')
