"""Batches made without a loader: of lists, of samples drawn from them, by permutations, by a stream of random numbers."""

import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)
random.seed(1)
rng = np.random.default_rng(1)
Row = namedtuple("Row", "x y")
X = torch.randn(37, 4)
Y = (X.sum(1) > 0).long()
rows = [Row(X[i], int(Y[i])) for i in range(37)]
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(x, y):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def batches(data, size):
    order = list(range(len(data)))
    random.shuffle(order)
    for start in range(0, len(order), size):
        picked = [data[i] for i in order[start : start + size]]
        yield torch.stack([row.x for row in picked]), torch.tensor([row.y for row in picked])


def bag(picked):
    x = torch.zeros(len(picked), 4)
    for i, row in enumerate(picked):
        x[i, : 2 + row.y] = row.x[: 2 + row.y]
        x[i, 3] += 0.5
    return x


class Data:
    def __init__(self, x, y):
        self.x, self.y, self.at = x, y, 0

    def next_batch(self, size):
        start = self.at
        self.at += size
        if self.at > len(self.x):
            order = np.random.RandomState(3).permutation(len(self.x))
            self.x, self.y, start, self.at = self.x[order], self.y[order], 0, size
        return self.x[start : self.at], self.y[start : self.at]


for x, y in batches(rows, 6):
    print(f"{step(x, y):.5f} {y.tolist()}")
memory = deque(maxlen=30)
for row in rows:
    memory.append(row)
for _ in range(4):
    batch = Row(*zip(*random.sample(memory, 7)))
    print(f"{step(torch.stack(batch.x), torch.tensor(batch.y)):.5f}")
for start in range(0, 37, 8):
    x = bag(rows[start : start + 8])
    y = torch.tensor([row.y for row in rows[start : start + 8]])
    print(f"{step(x, y):.5f} {len(x)}")
for _ in range(4):
    picked = rng.choice(37, size=7, replace=False)
    print(f"{step(X[picked], Y[picked]):.5f}")
    drawn = rng.normal(0, 1, (6, 4)).astype(np.float32)
    print(f"{step(torch.from_numpy(drawn), torch.from_numpy((drawn.sum(1) > 0).astype(np.int64))):.5f}")
data = Data(X.numpy(), Y.numpy())
for _ in range(7):
    x, y = data.next_batch(6)
    print(f"{step(torch.from_numpy(x), torch.from_numpy(y)):.5f}")
