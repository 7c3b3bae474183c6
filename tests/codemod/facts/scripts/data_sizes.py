"""Shapes that are printed and compared, the batch size in shapes, in a forward too, and in tensors drawn beside a batch."""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=6)
args = parser.parse_args()
torch.manual_seed(2)
np.random.seed(2)
X, Y = torch.randn(37, 2, 4), torch.randint(0, 2, (37,))


class Net(nn.Module):
    def __init__(self, batch_size):
        super().__init__()
        self.batch_size = batch_size
        self.first = nn.Linear(4, 8)
        self.last = nn.Linear(16, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)).view(self.batch_size, -1))


net, size = Net(args.batch_size), args.batch_size
judge = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1), nn.Sigmoid())
optimizer = torch.optim.SGD([*net.parameters(), *judge.parameters()], lr=0.1)
real, fake = torch.full((args.batch_size, 1), 1.0), torch.zeros(args.batch_size, 1)
loader = DataLoader(TensorDataset(X, Y), batch_size=args.batch_size, shuffle=True, drop_last=True)
for step, (x, y) in enumerate(loader):
    shape = x.shape
    if step == 0:
        print(x.shape, tuple(y.size()), f"{y.shape}", x.shape[1:], list(x.shape))
    assert x.shape[0] == args.batch_size and shape != (5, 2, 4)
    noise = torch.from_numpy(np.random.normal(0, 0.1, x.shape).astype(np.float32)) + torch.zeros(shape)
    drawn = torch.empty(size, 8).uniform_(-1, 1) * torch.tensor(np.random.rand(size, 1)).float()
    out = net(x + noise).view(size, 2)
    loss = F.cross_entropy(out, y.view(args.batch_size))
    loss = loss + F.binary_cross_entropy(judge(x.view(args.batch_size, -1)), real)
    loss = loss + F.binary_cross_entropy(judge(drawn), fake)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    picked = torch.randint(0, x.size(0), (2,))
    print(f"{loss.item():.5f} {y[picked].tolist()} {x[np.random.randint(len(x))].sum().item():.4f} {out.shape}")
for x, y in DataLoader(TensorDataset(X, Y), batch_size=args.batch_size):
    if x.shape[0] < args.batch_size:
        print("short", x.shape)
        break
    print(f"{F.cross_entropy(net(x), y).item():.5f}")
