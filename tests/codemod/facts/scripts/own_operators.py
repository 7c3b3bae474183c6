"""Numbers that go through operators, setters and items of the script's own classes, and through a mixin's super()."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


@dataclass
class Stats:
    loss: float = 0.0
    rows: int = 0

    def __add__(self, other):
        return Stats(self.loss + other.loss, self.rows + other.rows)

    def __iadd__(self, other):
        self.loss += other.loss
        self.rows += other.rows
        return self


class Board:
    def __init__(self):
        self.sums, self.total, self.last = {}, 0, None

    def __setitem__(self, name, pair):
        held = self.sums.setdefault(name, [0.0, 0])
        held[0] += pair[0]
        held[1] += pair[1]

    def __getitem__(self, name):
        return self.sums[name][0] / self.sums[name][1]

    @property
    def losses(self):
        return self.last

    @losses.setter
    def losses(self, value):
        self.last = value
        self.total += value.sum().item()


class Base:
    def __init__(self):
        self.model = nn.Linear(6, 3)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.2)
        self.board = Board()

    def told(self, x):
        return {"rows": len(x)}

    def run(self, x, y, train=True):
        out = self.model(x)
        each = F.cross_entropy(out, y, reduction="none")
        if train:
            self.optimizer.zero_grad()
            each.mean().backward()
            self.optimizer.step()
        self.board["right"] = ((out.argmax(1) == y).sum().item(), len(y))
        self.board.losses = each.detach()
        return Stats(each.sum().item(), len(x))


class Told:
    def told(self, x):
        return {**super().told(x), "name": "told"}


class Trainer(Told, Base):
    pass


trainer = Trainer()
data = TensorDataset(torch.randn(27, 6), torch.randint(0, 3, (27,)))
for epoch in range(2):
    stats, told = Stats(), []
    for x, y in DataLoader(data, batch_size=8, shuffle=True):
        stats += trainer.run(x, y)
        told.append(trainer.told(x))
    tested = sum((trainer.run(x, y, train=False) for x, y in DataLoader(data, batch_size=10)), Stats())
    print(epoch, f"{stats.loss / stats.rows:.5f} {tested.loss / tested.rows:.5f}", stats.rows, tested.rows)
    print(f"{trainer.board['right']:.4f} {trainer.board.total:.4f}", [item["rows"] for item in told])
