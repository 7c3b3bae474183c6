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


class MoCo(nn.Module):
    def __init__(self, K=20):
        super().__init__()
        self.q, self.k = nn.Linear(6, 4), nn.Linear(6, 4)
        self.k.load_state_dict(self.q.state_dict())
        for p in self.k.parameters():
            p.requires_grad = False
        self.K = K
        self.register_buffer('queue', F.normalize(torch.randn(4, K), dim=0))
        self.register_buffer('ptr', torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def enqueue(self, keys):
        b = keys.shape[0]
        p = int(self.ptr)
        self.queue[:, p:p + b] = keys.T
        self.ptr[0] = (p + b) % self.K

    def forward(self, a, b):
        q = F.normalize(self.q(a), dim=1)
        with torch.no_grad():
            for pq, pk in zip(self.q.parameters(), self.k.parameters()):
                pk.data = pk.data * 0.9 + pq.data * 0.1
            k = F.normalize(self.k(b), dim=1)
        pos = torch.einsum('nc,nc->n', [q, k]).unsqueeze(-1)
        neg = torch.einsum('nc,ck->nk', [q, self.queue.clone().detach()])
        logits = torch.cat([pos, neg], dim=1) / 0.2
        labels = torch.zeros(logits.shape[0], dtype=torch.long)
        self.enqueue(k)
        return logits, labels


loader = DataLoader(TensorDataset(torch.randn(20, 6), torch.randn(20, 6)), batch_size=5, shuffle=True)
model = MoCo()
opt = optim.SGD(model.parameters(), lr=1e-2)
for epoch in range(2):
    for a, b in loader:
        logits, labels = model(a, b)
        loss = F.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')
