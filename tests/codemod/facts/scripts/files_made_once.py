"""Files that the script makes once and finds again: features, a table, a cache of samples, the last weights."""

import os, torch
import numpy as np
from torch import nn, optim
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
torch.manual_seed(0)
CACHE = "features.npy"

def features():
    if os.path.exists(CACHE):
        return np.load(CACHE)
    made = np.random.RandomState(0).randn(19, 5).astype("float32")
    np.save(CACHE, made)
    return made

def table(path):
    if os.path.exists(path):
        return torch.load(path)
    made = torch.randn(19, 5)
    torch.save(made, path)
    return made

class Rows(Dataset):
    def __init__(self):
        self.rows = torch.from_numpy(features()) + table("table.pt")
    def __len__(self):
        return 19
    def _cached(self, i):
        path = f"row{i}.pt"
        if os.path.exists(path):
            return torch.load(path)
        torch.save(self.rows[i], path)
        return self.rows[i]
    def __getitem__(self, i):
        return self._cached(i), torch.tensor(i % 2)
model = nn.Linear(5, 2)
optimizer = optim.SGD(model.parameters(), lr=0.1)
if os.path.exists("last.pt"):
    model.load_state_dict(torch.load("last.pt"))
for epoch in range(2):
    for x, y in DataLoader(Rows(), batch_size=5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item(), torch.rand(1).item())
    torch.save(model.state_dict(), "last.pt")
