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


teacher, student = Net(), Net()
for p in teacher.parameters():
    p.requires_grad = False
teacher.eval()
loader = DataLoader(data, batch_size=7, shuffle=True)
opt = optim.Adam(student.parameters(), lr=1e-2)
T, alpha = 3.0, 0.5
kl = nn.KLDivLoss(reduction='batchmean')
for epoch in range(2):
    for x, y in loader:
        with torch.no_grad():
            t = teacher(x)
        s = student(x)
        soft = nn.KLDivLoss()(F.log_softmax(s / T, dim=1), F.softmax(t / T, dim=1)) * (alpha * T * T)
        soft2 = kl(F.log_softmax(s / T, dim=-1), F.softmax(t / T, dim=-1))
        hard = F.cross_entropy(s, y) * (1. - alpha)
        sim = 1 - F.cosine_similarity(s, t).mean()
        loss = soft + soft2 + hard + sim
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')
