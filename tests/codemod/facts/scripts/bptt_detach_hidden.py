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


data_ids = torch.randint(0, 9, (200,))
bs, bptt = 4, 6


def batchify(d, bsz):
    n = d.size(0) // bsz
    return d.narrow(0, 0, n * bsz).view(bsz, -1).t().contiguous()


class RNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(9, 8), nn.LSTM(8, 8), nn.Linear(8, 9)

    def forward(self, x, h):
        o, h = self.rnn(self.emb(x), h)
        return self.out(o.view(-1, 8)), h

    def init_hidden(self, bsz):
        w = next(self.parameters())
        return w.new_zeros(1, bsz, 8), w.new_zeros(1, bsz, 8)


def repackage(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage(v) for v in h)


train_data = batchify(data_ids, bs)
model = RNN()
opt = optim.SGD(model.parameters(), lr=0.5)
for epoch in range(2):
    h = model.init_hidden(bs)
    total = 0.
    for i in range(0, train_data.size(0) - 1, bptt):
        n = min(bptt, len(train_data) - 1 - i)
        x, y = train_data[i:i + n], train_data[i + 1:i + 1 + n].reshape(-1)
        h = repackage(h)
        out, h = model(x, h)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        opt.step()
        total += len(x) * loss.item()
    print(f'{total / (len(train_data) - 1):.6f}')
