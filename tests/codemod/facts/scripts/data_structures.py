"""Samples that are named tuples, dicts and nested pairs with names; joined data sets; a vocabulary read from a loader."""

from collections import namedtuple
from typing import NamedTuple

import torch
import torch.nn as nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, StackDataset, TensorDataset

torch.manual_seed(5)
X = torch.randn(37, 4)
Y = (X.sum(1) > 0).long()
Point = namedtuple("Point", ["x", "y", "meta"])


class Pair(NamedTuple):
    x: torch.Tensor
    y: int


class Points(Dataset):
    def __len__(self):
        return 37

    def __getitem__(self, i):
        return Point(X[i], Y[i], {"name": f"n{i}", "pos": (i, float(i)), "flags": [i % 2, i % 3]})


class Files(Points):
    def __getitem__(self, i):
        return dict(image=X[i], target=int(Y[i]), path=f"img_{i}.png")


class Pairs(Points):
    def __getitem__(self, i):
        return Pair(X[i], int(Y[i]))


class Words(Points):
    def __getitem__(self, i):
        return " ".join("abcdefgh"[(i * k) % 8] for k in range(1, 4)), i % 2


model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()


def step(x, y):
    out = model(x)
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item(), out


for batch in DataLoader(Points(), batch_size=5, shuffle=True):
    at, flags = batch.meta["pos"], batch.meta["flags"]
    loss, _ = step(batch.x, batch.y)
    print(f"{loss:.5f}", batch.meta["name"][:2], at[0].tolist(), at[1].sum().item(), flags[1].tolist())
names = []
for batch in DataLoader(ConcatDataset([Files(), Files()]), batch_size=9, shuffle=True):
    loss, out = step(batch["image"], batch["target"])
    names.extend(batch["path"])
    print(f"{loss:.5f}", [p for p, k in zip(batch["path"], out.argmax(1)) if k.item() == 0], batch["path"][0])
print(len(names), sorted(names)[:3])
for pair in DataLoader(Pairs(), batch_size=8):
    print(f"{step(pair.x, pair.y)[0]:.5f} {pair.y.sum().item()}")
for (x,), (y,) in DataLoader(StackDataset(TensorDataset(X), TensorDataset(Y)), batch_size=8):
    print(f"{step(x, y)[0]:.5f}")
loader, vocabulary = DataLoader(Words(), batch_size=7), {}
for texts, _ in loader:
    for text in texts:
        for word in text.split():
            vocabulary.setdefault(word, len(vocabulary))
print(vocabulary)


def counts(texts):
    found = torch.zeros(len(texts), 4)
    for i, text in enumerate(texts):
        for word in text.split():
            found[i, vocabulary[word] % 4] += 1
    return found


for texts, y in loader:
    print(f"{step(counts(texts), y)[0]:.5f} {texts[-1]}")
