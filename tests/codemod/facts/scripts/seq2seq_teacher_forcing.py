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


import random

random.seed(1)
V = 9


class Enc(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn = nn.Embedding(V, 6), nn.GRU(6, 8)

    def forward(self, src):
        _, h = self.rnn(self.emb(src))
        return h


class Dec(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(V, 6), nn.GRU(6, 8), nn.Linear(8, V)

    def forward(self, tok, h):
        o, h = self.rnn(self.emb(tok.unsqueeze(0)), h)
        return self.out(o.squeeze(0)), h


class S2S(nn.Module):
    def __init__(self, enc, dec):
        super().__init__()
        self.enc, self.dec = enc, dec

    def forward(self, src, trg, ratio=0.5):
        bs, T = trg.shape[1], trg.shape[0]
        outputs = torch.zeros(T, bs, V)
        h = self.enc(src)
        tok = trg[0, :]
        for t in range(1, T):
            o, h = self.dec(tok, h)
            outputs[t] = o
            tok = trg[t] if random.random() < ratio else o.argmax(1)
        return outputs


def collate(b):
    s, t = zip(*b)
    return torch.stack(s).t(), torch.stack(t).t()


pairs = [(torch.randint(1, V, (5,)), torch.randint(1, V, (6,))) for _ in range(29)]
loader = DataLoader(pairs, batch_size=7, shuffle=True, collate_fn=collate)
model = S2S(Enc(), Dec())
opt = optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss(ignore_index=0)
for epoch in range(2):
    total = 0
    for src, trg in loader:
        out = model(src, trg)
        out = out[1:].view(-1, V)
        y = trg[1:].reshape(-1)
        loss = criterion(out, y)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        opt.step()
        total += loss.item()
    print(f'{total / len(loader):.6f} {math.exp(total / len(loader)):.5f}')
