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


class RNN(nn.Module):
    def __init__(self, v, h):
        super().__init__()
        self.h = h
        self.emb = nn.Embedding(v, h)
        self.cell = nn.GRUCell(h, h)
        self.out = nn.Linear(h, v)

    def forward(self, tok, hidden):
        hidden = self.cell(self.emb(tok), hidden)
        return self.out(hidden), hidden

    def init_hidden(self, n):
        return torch.zeros(n, self.h)


loader = DataLoader(TensorDataset(torch.randint(0, 9, (23, 7))), batch_size=5, shuffle=True)
model = RNN(9, 8)
opt = optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
for epoch in range(2):
    for seq, in loader:
        hidden = model.init_hidden(seq.size(0))
        loss = 0
        for t in range(seq.size(1) - 1):
            out, hidden = model(seq[:, t], hidden)
            loss += criterion(out, seq[:, t + 1])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item() / (seq.size(1) - 1):.6f}')
