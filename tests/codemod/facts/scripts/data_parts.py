"""Batches that are parts of data: cut ahead, kept in lists, of two sizes by turns, streams of characters side by side."""

import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)
np.random.seed(1)
random.seed(1)
X = torch.randn(37, 4)
Y = (X.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(x, y):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


for x, y in zip(X.split(7), Y.split(7)):
    print(f"{step(x, y):.4f} {len(x)}")
for i, (x, y) in enumerate(zip(X.chunk(5), torch.chunk(Y, 5))):
    print(f"{i} {step(x, y):.4f}")
order = np.random.permutation(37)
for part in np.array_split(order, 5):
    print(f"{step(X[part], Y[part]):.4f} {len(part)}")
batches = [(X[i : i + 7], Y[i : i + 7]) for i in range(0, 37, 7)]
random.shuffle(batches)
for x, y in batches:
    print(f"{step(x, y):.4f}")
with torch.no_grad():
    print(torch.cat([model(x).argmax(1) for x in X.split(9)]).tolist())
for k in range(4):
    start = k * 9
    end = min(start + 9, len(X))
    x, y = X[start:end], Y[start:end]
    supervised = F.cross_entropy(model(x), y)
    few = np.random.choice(37, 5)
    x2 = X[few]
    y2 = Y[few]
    other = F.cross_entropy(model(x2), y2)
    optimizer.zero_grad()
    (supervised + 0.5 * other).backward()
    optimizer.step()
    print(f"{supervised.item():.4f} {other.item():.4f}")


class Chars(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.lstm = nn.LSTM(size, 12, batch_first=True)
        self.out = nn.Linear(12, size)

    def forward(self, x, state):
        found, state = self.lstm(x, state)
        return self.out(found.contiguous().view(-1, 12)), state

    def init_hidden(self, n):
        weight = next(self.parameters()).data
        return weight.new(1, n, 12).zero_(), weight.new(1, n, 12).zero_()


def get_batches(arr, n_seqs, n_steps):
    n = len(arr) // (n_seqs * n_steps)
    arr = arr[: n * n_seqs * n_steps].reshape((n_seqs, -1))
    for k in range(0, arr.shape[1], n_steps):
        x = arr[:, k : k + n_steps]
        y = np.zeros_like(x)
        y[:, :-1], y[:, -1] = x[:, 1:], x[:, 0]
        yield x, y


def one_hot(arr, size):
    found = np.zeros((np.multiply(*arr.shape), size), dtype=np.float32)
    found[np.arange(found.shape[0]), arr.flatten()] = 1.0
    return found.reshape((*arr.shape, size))


chars, n_seqs, n_steps = Chars(9), 5, 6
adam = torch.optim.Adam(chars.parameters(), lr=0.01)
state = chars.init_hidden(n_seqs)
for x, y in get_batches(np.random.randint(0, 9, 100), n_seqs, n_steps):
    inputs, targets = torch.from_numpy(one_hot(x, 9)), torch.from_numpy(y)
    state = tuple(each.data for each in state)
    chars.zero_grad()
    out, state = chars(inputs, state)
    loss = F.cross_entropy(out, targets.view(n_seqs * n_steps).long())
    loss.backward()
    adam.step()
    print(f"{loss.item():.4f}")
net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 6))
sgd = torch.optim.SGD(net.parameters(), lr=0.05)
rows = [(torch.randn(12, 5), torch.randint(1, 6, (2 + i % 3,))) for i in range(13)]
for i in range(0, 13, 5):
    picked = rows[i : i + 5]
    x, ys = torch.stack([row[0] for row in picked]), [row[1] for row in picked]
    out = net(x).log_softmax(2).transpose(0, 1)
    steps, lengths = torch.IntTensor([12] * x.size(0)), torch.tensor([len(y) for y in ys])
    loss = F.ctc_loss(out, torch.cat(ys), steps, lengths)
    loss = loss + 0.1 * F.ctc_loss(out, nn.utils.rnn.pad_sequence(ys, batch_first=True), steps, lengths)
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    print(f"{loss.item():.4f}")
