"""A WeightedRandomSampler, loaders rebuilt in the epoch loop, batches reused by global index, squeeze on a last row."""

import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, RandomSampler, Subset, TensorDataset, WeightedRandomSampler

torch.manual_seed(8)
random.seed(8)
np.random.seed(8)
x = torch.randn(31, 5)
y = (x.sum(1) > 1).long()
dataset = TensorDataset(x, y)
counts = torch.bincount(y)
weights = 1.0 / counts[y].double()
sampler = WeightedRandomSampler(weights, num_samples=27, replacement=True)
model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.BCEWithLogitsLoss()
for x_batch, y_batch in DataLoader(dataset, batch_size=13, sampler=sampler):
    out = model(x_batch).squeeze(1)
    loss = criterion(out, y_batch.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"weighted {loss.item():.5f} {y_batch.sum().item()}")
for epoch in range(3):
    picks = random.sample(range(31), 21) if epoch else np.random.permutation(31)[:21].tolist()
    loader = DataLoader(Subset(dataset, picks), batch_size=4 + epoch, shuffle=epoch % 2 == 0)
    running = 0.0
    for i, (inputs, labels) in enumerate(loader):
        out = model(inputs)
        first, pair = out[0], inputs[:2]
        loss = criterion(out[:, 0], labels.float()) + 0.01 * (pair[0] - pair[-1]).abs().sum() * first.pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item() * inputs.size(0)
    print(f"{epoch} {running / len(loader.dataset):.5f} {i + 1} {first.item():.5f} {labels[-1].item()}")
few = DataLoader(dataset, batch_size=7, sampler=RandomSampler(dataset, replacement=True, num_samples=15))
model.eval()
with torch.no_grad():
    for inputs, labels in few:
        probs = torch.sigmoid(model(inputs).view(-1))
        print(["%.4f" % p for p in probs], labels.tolist())
