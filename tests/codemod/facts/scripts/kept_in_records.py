"""Models and optimizers in dataclasses, named tuples, dicts and lists."""

import argparse
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.a = nn.Linear(5, width)
        self.b = nn.Linear(width, 3)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


torch.manual_seed(0)
X, Y = torch.randn(29, 5), torch.randint(0, 3, (29,))


@dataclass
class Config:
    lr: float = 0.1
    batch: int = 6
    widths: list = field(default_factory=lambda: [8])


@dataclass
class State:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: int = 0
    history: list = field(default_factory=list)


class Data(NamedTuple):
    train: DataLoader
    valid: DataLoader


def make(cfg):
    model = Net(cfg.widths[0])
    return State(model=model, optimizer=torch.optim.Adam(model.parameters(), lr=cfg.lr))


def data(cfg):
    d = TensorDataset(X, Y)
    return Data(DataLoader(d, cfg.batch, shuffle=True), valid=DataLoader(d, 10))


cfg = replace(Config(), lr=0.02)
state = make(cfg)
loaders = data(cfg)
meter = SimpleNamespace(total=0.0, count=0)
for _ in range(2):
    for x, y in loaders.train:
        loss = F.cross_entropy(state.model(x), y)
        state.optimizer.zero_grad()
        loss.backward()
        state.optimizer.step()
        state.step += 1
        meter.total += loss.item() * len(x)
        meter.count += len(x)
        state.history.append(loss.item())
    print(state.step, "%.5f" % (meter.total / meter.count), f"{state.history[-1]:.5f}")
    with torch.no_grad():
        print(sum((state.model(x).argmax(1) == y).sum().item() for x, y in loaders.valid))


nets = {
    "G": nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 5)),
    "D": nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1)),
}
opts = {k: torch.optim.Adam(n.parameters(), lr=0.01) for k, n in nets.items()}
state = {"loader": DataLoader(TensorDataset(X), 6, shuffle=True), "epoch": 0}
args = argparse.Namespace(z=4)
for net in nets.values():
    net.train()
for epoch in range(2):
    state["epoch"] = epoch
    for (real,) in state["loader"]:
        z = torch.randn(real.size(0), args.z)
        fake = nets["G"](z)
        d_loss = F.softplus(-nets["D"](real)).mean() + F.softplus(nets["D"](fake.detach())).mean()
        opts["D"].zero_grad()
        d_loss.backward()
        opts["D"].step()
        g_loss = F.softplus(-nets["D"](fake)).mean()
        opts["G"].zero_grad()
        g_loss.backward()
        opts["G"].step()
        print(f"{d_loss.item():.5f} {g_loss.item():.5f}")
torch.save({k: n.state_dict() for k, n in nets.items()}, "nets.pt")


members = [Net(4 + k) for k in range(3)]
opts = [torch.optim.SGD(n.parameters(), lr=0.1 * (k + 1)) for k, n in enumerate(members)]
loader = DataLoader(TensorDataset(X, Y), 6, shuffle=True)
for _ in range(2):
    losses = [[] for _ in members]
    for x, y in loader:
        for member, opt, found in zip(members, opts, losses):
            opt.zero_grad()
            loss = F.cross_entropy(member(x), y)
            loss.backward()
            opt.step()
            found.append(loss.item())
    print(" ".join("%.5f" % (sum(f) / len(f)) for f in losses))
with torch.no_grad():
    votes = torch.stack([n(X).softmax(1) for n in members]).mean(0).argmax(1)
print((votes == Y).float().mean().item())
