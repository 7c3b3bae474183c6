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


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(11, 8)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.out = nn.Linear(8, 11)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.out(h)


seqs = torch.randint(0, 11, (29, 9))
seqs[3:12, 5:] = 0
loader = DataLoader(TensorDataset(seqs[:, :-1], seqs[:, 1:]), batch_size=7)
model = LM()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    total, ntokens = 0.0, 0
    for x, y in loader:
        logits = model(x)
        loss = F.cross_entropy(logits.reshape(-1, 11), y.reshape(-1), ignore_index=0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        n = (y != 0).sum().item()
        total += loss.item() * n
        ntokens += n
    print(f'epoch {epoch} ppl {math.exp(total / ntokens):.5f} tokens {ntokens}')
