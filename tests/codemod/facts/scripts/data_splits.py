"""random_split with a generator, a Subset, seeded and unseeded shuffles, statistics from a loader of their own."""

import json

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split

torch.manual_seed(11)
rng = np.random.default_rng(5)


class Standardized(Dataset):
    def __init__(self, base, mean, std):
        self.base, self.mean, self.std = base, mean, std

    def __len__(self):
        return len(self.base)

    def __getitem__(self, i):
        x, y = self.base[i]
        return {"inputs": {"x": (x - self.mean) / self.std}, "target": y, "index": i}


def collate(rows):
    batch = torch.utils.data.default_collate(rows)
    batch["noise"] = torch.as_tensor(rng.normal(0, 0.1, size=(len(rows), 4)), dtype=torch.float32)
    return batch


full = TensorDataset(torch.randn(41, 4) * 3 + 1, torch.randint(0, 3, (41,)))
train, valid = random_split(full, [29, 12], generator=torch.Generator().manual_seed(42))
total, seen = torch.zeros(4), 0
squares = torch.zeros(4)
for x, _ in DataLoader(train, batch_size=8):
    total += x.sum(0)
    squares += (x**2).sum(0)
    seen += len(x)
mean = total / seen
std = (squares / seen - mean**2).sqrt()
print("statistics", [round(v, 6) for v in mean.tolist()], [round(v, 6) for v in std.tolist()], seen)

order = rng.permutation(len(train))
kept = Subset(Standardized(train, mean, std), order[:25].tolist())
g = torch.Generator()
g.manual_seed(7)
train_loader = DataLoader(kept, batch_size=6, shuffle=True, collate_fn=collate, generator=g, drop_last=True)
valid_loader = DataLoader(Standardized(valid, mean, std), batch_size=5, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
history = []
for epoch in range(3):
    model.train()
    for batch in train_loader:
        out = model(batch["inputs"]["x"] + batch["noise"])
        loss = nn.functional.cross_entropy(out, batch["target"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, f"{loss.item():.5f}", batch["index"].tolist())
    model.eval()
    right, wrong = 0, set()
    with torch.no_grad():
        for batch in valid_loader:
            guess = model(batch["inputs"]["x"]).argmax(-1)
            right += (guess == batch["target"]).sum().item()
            wrong.update(batch["index"][guess != batch["target"]].tolist())
    history.append({"epoch": epoch, "right": right, "wrong": sorted(wrong)})
    print(history[-1], len(valid_loader.dataset), right / len(valid))
with open("history.json", "w") as f:
    json.dump(history, f)
