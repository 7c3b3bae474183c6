"""What bench/codemod.py lets the codemod read: training scripts and programs of a wanted size, and a thousand files.

A script is a head, any number of units and a `main` that calls them. A unit is a model of its own, a dataset, a
function that trains and one that evaluates, so that a file that is twice as long has twice as much of everything.
"""

from __future__ import annotations

from pathlib import Path

HEAD = """\
import argparse
import json

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Meter:
    def __init__(self, name):
        self.name = name
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def average(self):
        return self.total / max(self.count, 1)


def parse():
    parser = argparse.ArgumentParser(description="train a small network")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-every", type=int, default=10)
    return parser.parse_args()
"""

UNIT = '''

class Block{k}(nn.Module):
    def __init__(self, width, stride=1):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)

    def forward(self, x):
        out = F.relu(self.norm(self.first(x)))
        return F.relu(self.second(out) + x)


class Network{k}(nn.Module):
    """A stem, a block and a classifier."""

    def __init__(self, classes=10, width=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.block = Block{k}(width)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.block(self.stem(x))
        x = self.pool(x).flatten(1)
        return self.head(x)


class Pictures{k}(Dataset):
    def __init__(self, split, seed):
        generator = torch.Generator().manual_seed(seed)
        self.images = torch.randn(512 if split == "train" else 128, 3, 16, 16, generator=generator)
        self.labels = torch.randint(10, (len(self.images),), generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


def train{k}(args, model, device, loader, optimizer, epoch):
    model.train()
    losses = Meter("loss")
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.update(loss.item(), images.size(0))
        if step % args.log_every == 0:
            # what is seen of the training
            print(f"epoch {{epoch}} step {{step}} loss {{loss.item():.4f}} mean {{losses.average:.4f}}")
    return losses.average


def evaluate{k}(model, device, loader):
    model.eval()
    total, correct, seen = 0.0, 0, 0
    with torch.no_grad():
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            logits = model(images)
            total += F.cross_entropy(logits, labels, reduction="sum").item()
            correct += (logits.argmax(1) == labels).sum().item()
            seen += len(labels)
    print(f"evaluation: loss {{total / seen:.4f}}, accuracy {{correct / seen:.4f}}")
    return correct / seen


def run{k}(args, device):
    train_loader = DataLoader(Pictures{k}("train", 0), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(Pictures{k}("test", 1), batch_size=args.batch_size)
    model = Network{k}().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    best, history = 0.0, []
    for epoch in range(args.epochs):
        loss = train{k}(args, model, device, train_loader, optimizer, epoch)
        accuracy = evaluate{k}(model, device, test_loader)
        history.append({{"epoch": epoch, "loss": loss, "accuracy": accuracy}})
        scheduler.step()
        if accuracy > best:
            best = accuracy
            torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, "best{k}.pt")
    return history
'''

MAIN = """

def main():
    args = parse()
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    results = {{}}
{calls}
    with open("history.json", "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
"""

FILLER = '''

def longest{k}(history):
    """The epoch after which nothing got better for the longest time."""
    start, best, length = 0, 0, 0
    for index, entry in enumerate(history):
        if entry["accuracy"] > history[best]["accuracy"]:
            best = index
        if index - best > length:
            start, length = best, index - best
    return start
'''

PLAIN = '''\
"""Accounts, part {k} of a library that has nothing to do with networks."""

import json
import logging
import os
from collections import defaultdict
from dataclasses import dataclass, field
{imports}
logger = logging.getLogger(__name__)


@dataclass
class Account{k}:
    owner: str
    balance: int = 0
    history: list = field(default_factory=list)

    def book(self, amount, reason=""):
        if amount + self.balance < 0:
            raise ValueError(f"{{self.owner}}: not enough money for {{amount}}")
        self.balance += amount
        self.history.append((amount, reason))


class Ledger{k}:
    """All accounts of a branch."""

    def __init__(self, path):
        self.path = path
        self.accounts = {{}}

    def load(self):
        if not os.path.exists(self.path):
            return
        with open(self.path) as file:
            for owner, balance in json.load(file).items():
                self.accounts[owner] = Account{k}(owner, balance)

    def save(self):
        with open(self.path, "w") as file:
            json.dump({{name: item.balance for name, item in self.accounts.items()}}, file)

    def total(self):
        by_letter = defaultdict(int)
        for name, item in sorted(self.accounts.items()):
            by_letter[name[:1]] += item.balance
        logger.info("ledger %s holds %d", self.path, sum(by_letter.values()))
        return dict(by_letter)


def transfer{k}(ledger, source, target, amount):
    """Moves money; nothing is booked if there isn't enough."""
    ledger.accounts[source].book(-amount, f"to {{target}}")
    try:
        ledger.accounts[target].book(amount, f"from {{source}}")
    except KeyError:
        ledger.accounts[source].book(amount, "returned")
        raise
'''

LAYERS = '''\
"""Layers, part {k}: what a model is built from, with nothing that trains it."""

import math

import torch
from torch import nn
{imports}

class Attention{k}(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.inner = nn.Linear(width, 3 * width)
        self.outer = nn.Linear(width, width)

    def forward(self, x):
        rows, length, width = x.shape
        query, key, value = self.inner(x).chunk(3, dim=-1)
        query = query.view(rows, length, self.heads, -1).transpose(1, 2)
        key = key.view(rows, length, self.heads, -1).transpose(1, 2)
        value = value.view(rows, length, self.heads, -1).transpose(1, 2)
        weights = (query @ key.transpose(-2, -1) / math.sqrt(key.size(-1))).softmax(-1)
        return self.outer((weights @ value).transpose(1, 2).reshape(rows, length, width))


class Feed{k}(nn.Module):
    def __init__(self, width, factor=4):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, factor * width), nn.GELU(), nn.Linear(factor * width, width))

    def forward(self, x):
        return x + self.layers(x)


def positions{k}(length, width):
    """Sines and cosines of the places."""
    place = torch.arange(length).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate)
    return table
'''


def script(lines: int) -> str:
    """A training script of so many lines, at least a hundred and some: as many units as fit, then small functions."""
    body = "".join([HEAD, *map(unit, range(units(lines)))])
    end = main(range(units(lines)))
    left = max(0, lines - (body + end).count("\n"))
    functions, rest = divmod(left, FILLER.count("\n"))
    text = "".join([body, *(FILLER.format(k=k) for k in range(functions)), end])
    return "".join(f"# option {number}: see the help\n" for number in range(rest)) + text


def units(lines: int) -> int:
    """How many units a script of a length has."""
    fixed, each = (HEAD + main(())).count("\n"), UNIT.count("\n") + 1
    return max(1, (lines - fixed) // each)


def unit(number: int) -> str:
    """A model, its data, its training and its evaluation."""
    return UNIT.format(k=number)


def main(numbers: range | tuple[int, ...]) -> str:
    """The end of a script, which runs units."""
    return MAIN.format(calls="\n".join(f'    results["{k}"] = run{k}(args, device)' for k in numbers))


def program(folder: Path, modules: int) -> Path:
    """Writes a script with the modules that it imports, a unit in each, so many files in all; returns the script."""
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text("")
    if modules == 1:
        (folder / "train.py").write_text(script(1))
        return folder / "train.py"
    names = range(modules - 1)
    imports = HEAD.split("\n\n\nclass Meter", 1)[0]
    meter = "class Meter" + HEAD.split("class Meter", 1)[1].split("\n\n\ndef parse", 1)[0]
    for k in names:
        (folder / f"part{k}.py").write_text(f"{imports}\n\n\n{meter}\n{unit(k)}")
    starts = "\n".join(f"from part{k} import run{k}" for k in names)
    (folder / "train.py").write_text(
        f"{imports}\n\n{starts}\n\n\ndef parse{HEAD.split('def parse', 1)[1]}{main(names)}"
    )
    return folder / "train.py"


def without_torch(folder: Path, count: int) -> list[Path]:
    """Writes files of a library that trains nothing, each of which imports two of its neighbours."""
    package = folder / "bank"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text("")
    found = []
    for k in range(count):
        one, other = (k + 1) % count, (k + 7) % count
        near = (f"from bank.part{one} import transfer{one}", f"from . import part{other}")
        found.append(package / f"part{k}.py")
        found[-1].write_text(PLAIN.format(k=k, imports="\n".join(["", *near, ""])))
    return found


def with_torch(folder: Path, count: int, each: int = 20) -> list[Path]:
    """Writes projects of `each` files: a script, half of the others modules that it imports, the rest layers alone."""
    found: list[Path] = []
    for number in range(count // each):
        home = folder / f"project{number}"
        used = each // 2
        program(home, 2)
        layers = [home / f"layers{k}.py" for k in range(each - 2)]
        for k, path in enumerate(layers):
            nearer = f"from layers{k + 1} import Feed{k + 1}" if k + 1 < used else ""
            path.write_text(LAYERS.format(k=k, imports=f"\n{nearer}\n" if nearer else ""))
        text = (home / "train.py").read_text()
        (home / "train.py").write_text(text.replace("\nfrom part0", "\nfrom layers0 import positions0\nfrom part0", 1))
        found += [home / "train.py", home / "part0.py", *layers]
    return found
