"""Steps in closures, decorators, context managers and generators; global names, walrus and match."""

import time
from contextlib import contextmanager
from functools import partial, wraps

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


def timed(f):
    @wraps(f)
    def inner(*args, **kwargs):
        t = time.time()
        result = f(*args, **kwargs)
        inner.spent = time.time() - t
        return result

    return inner


@contextmanager
def evaluating(model):
    was = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield model
    finally:
        model.train(was)


def make_step(model, optimizer, criterion):
    count = 0

    def step(x, y):
        nonlocal count
        count += 1
        model.train()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item(), count

    return step


@timed
def epoch_of(loader, step, log=print):
    for x, y in loader:
        loss, count = step(x, y)
        log(f"{count} {loss:.5f}")


def factory(width, lr=0.1):
    model = Net(width)
    return model, partial(torch.optim.SGD, lr=lr)(model.parameters())


model, optimizer = factory(7)
step = make_step(model, optimizer, partial(F.cross_entropy, label_smoothing=0.1))
loader = DataLoader(TensorDataset(X, Y), 6, shuffle=True)
def accuracy(out, y):
    return (out.argmax(1) == y).float().mean()
for _ in range(2):
    epoch_of(loader, step)
    with evaluating(model) as m:
        total = 0.0
        for x, y in loader:
            total += accuracy(m(x), y).item() * len(y)
    print("%.5f" % (total / 29))


def batches(x, y, size, shuffle=True):
    order = torch.randperm(len(x)) if shuffle else torch.arange(len(x))
    for start in range(0, len(x), size):
        index = order[start : start + size]
        yield x[index], y[index]


def forever(loader):
    while True:
        yield from loader


def pairs(loader):
    yield from ((x * 2, y) for x, y in loader)


model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)


def train_on(source, steps=None):
    for i, (x, y) in enumerate(source):
        if steps is not None and i >= steps:
            break
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        print(f"{i} {loss.item():.5f}")


train_on(batches(X, Y, 6))
loader = DataLoader(TensorDataset(X, Y), 6, shuffle=True)
stream = forever(loader)
train_on(stream, 7)
train_on(pairs(loader))
x, y = next(stream)
with torch.inference_mode():
    print(f"{F.cross_entropy(model(x), y).item():.5f}")


model = optimizer = None
best = 0.0


def setup():
    global model, optimizer, loader
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(X, Y), 6, shuffle=True)


def train():
    global best
    it = iter(loader)
    while (batch := next(it, None)) is not None:
        x, y = batch
        optimizer.zero_grad()
        if (loss := F.cross_entropy(model(x), y)) > 100:
            continue
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.5f}")


@torch.no_grad()
def test():
    global best
    hits = 0
    for x, y in loader:
        hits += model(x).argmax(1).eq(y).sum().item()
    if (accuracy := hits / len(loader.dataset)) > best:
        best = accuracy
    print(f"{accuracy:.5f} {best:.5f}")


setup()
for mode in ("train", "test", "train", "test"):
    match mode:
        case "train":
            train()
        case "test":
            test()
        case _:
            raise ValueError(mode)
