"""Two loaders at once, one of them without end, whose batches the loop copies before it uses them."""

from itertools import cycle

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def moved(batch):
    """As a device's `.to` does, other tensors with equal values."""
    return [item.clone() for item in batch]


def epoch(net, optimizer, pairs):
    for labelled, plain in pairs:
        (x, y), (z,) = moved(labelled), moved(plain)
        z = z.double().float()
        loss = F.cross_entropy(net(x), y)
        extra = net(z).pow(2).mean()
        optimizer.zero_grad()
        (loss + extra).backward()
        optimizer.step()
        print(f"loss {loss.item():.5f} extra {extra.item():.5f}")


torch.manual_seed(0)
some = DataLoader(TensorDataset(torch.randn(15, 4), torch.randint(0, 3, (15,))), 6, shuffle=True)
many = DataLoader(TensorDataset(torch.randn(41, 4)), 6, shuffle=True)
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
epoch(net, optimizer, zip(cycle(some), many))
epoch(net, optimizer, zip(some, many))
