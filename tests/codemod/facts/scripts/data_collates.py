"""Collate functions that pad by hand, count, bind arguments, or keep the list of samples."""

import random
from functools import partial

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, default_collate

torch.manual_seed(0)
random.seed(0)
TEXTS = [[random.randrange(1, 20) for _ in range(random.randrange(2, 9))] for _ in range(29)]


class Texts(Dataset):
    def __len__(self):
        return len(TEXTS)

    def __getitem__(self, i):
        return TEXTS[i], sum(TEXTS[i]) % 3


class Pairs(Texts):
    def __getitem__(self, i):
        return {"x": torch.tensor(TEXTS[i][:2]), "y": sum(TEXTS[i]) % 3}


def by_hand(rows):
    rows.sort(key=lambda row: len(row[0]), reverse=True)
    lengths = [len(text) for text, _ in rows]
    x = torch.zeros(max(lengths), len(rows), dtype=torch.long)
    for i, (text, _) in enumerate(rows):
        x[: len(text), i] = torch.tensor(text)
    return x, torch.tensor([label for _, label in rows]), len(rows), sum(lengths)


def counted(rows):
    batch = default_collate(rows)
    batch["n"] = len(rows)
    batch["total"] = batch["x"].sum()
    batch["size"] = batch["y"].size(0)
    return batch


def bound(pad, rows, device=None):
    x = np.full((len(rows), max(len(text) for text, _ in rows)), pad)
    for i, (text, _) in enumerate(rows):
        x[i, : len(text)] = text
    return torch.from_numpy(x).to(device), torch.tensor([label for _, label in rows])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 8, padding_idx=0)
        self.out = nn.Linear(8, 3)

    def forward(self, x, offsets=None):
        return self.out(self.bag(x, offsets))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)


def step(out, y, n=None):
    loss = F.cross_entropy(out, y) if n is None else F.cross_entropy(out, y, reduction="sum") / n
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


seen = tokens = 0
for x, y, n, length in DataLoader(Texts(), batch_size=6, shuffle=True, collate_fn=by_hand):
    print(f"{step(model(x.t()), y, n):.5f} {n} {length} {tuple(x.shape)}")
    seen += n
    tokens += length
print(seen, tokens / seen)
for batch in DataLoader(Pairs(), batch_size=6, shuffle=True, collate_fn=counted):
    batch = {key: value.to("cpu") if torch.is_tensor(value) else value for key, value in batch.items()}
    print(f"{step(model(batch['x']), batch['y'], batch['n']):.5f} {batch['total'].item()} {batch['size']}")
for x, y in DataLoader(Texts(), batch_size=6, shuffle=True, collate_fn=partial(bound, 0, device=torch.device("cpu"))):
    print(f"{step(model(x), y):.5f} {x.size(1)}")
for rows in DataLoader(Texts(), batch_size=6, shuffle=True, collate_fn=lambda rows: rows):
    x = pad_sequence([torch.tensor(text) for text, _ in rows], batch_first=True)
    print(f"{step(model(x), torch.tensor([label for _, label in rows])):.5f} {len(rows)} {rows[0]}")
