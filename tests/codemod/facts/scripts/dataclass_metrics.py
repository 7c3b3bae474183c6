import math
from collections import defaultdict, deque, namedtuple
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)

@dataclass
class Metrics:
    loss: float = 0.0
    hits: int = 0
    seen: int = 0
    guesses: list = field(default_factory=list)

    @property
    def accuracy(self):
        return self.hits / self.seen


Output = namedtuple('Output', 'logits hidden loss')


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 12)
        self.heads = nn.ModuleDict({'a': nn.Linear(12, 3), 'b': nn.Linear(12, 1)})

    def forward(self, x, y=None):
        hidden = torch.tanh(self.body(x))
        logits = self.heads['a'](hidden)
        loss = F.cross_entropy(logits, y) if y is not None else None
        return Output(logits, hidden, loss)

    def score(self, x):
        return self.heads['b'](torch.tanh(self.body(x))).flatten()


def evaluate(model, loader):
    model.eval()
    metrics = Metrics()
    names = {'acc': [], 'conf': [], 'loss': []}
    with torch.inference_mode():
        for x, y in loader:
            out = model(x, y)
            metrics.loss += out.loss.item() * len(y)
            metrics.hits += out.logits.argmax(-1).eq(y).sum().item()
            metrics.seen += len(y)
            metrics.guesses.extend(out.logits.argmax(-1).tolist())
            names['acc'].append(out.logits.argmax(1).eq(y).float().mean().item())
            names['conf'].append(out.logits.softmax(1).amax(1).mean().item())
            names['loss'].append(out.loss.item())
    return metrics, {k: float(np.mean(v)) for k, v in names.items()}


data = TensorDataset(torch.randn(29, 6), torch.randint(0, 3, (29,)))
loader = DataLoader(data, batch_size=7, shuffle=True)
model = Net()
opt = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    model.train()
    for x, y in loader:
        out = model(x, y)
        loss = out.loss + 0.1 * (model.score(x) - y).pow(2).mean() + 0.01 * out.hidden.abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f} {out.loss.item():.6f}')
    metrics, table = evaluate(model, DataLoader(data, batch_size=6))
    print(f'{metrics.loss / metrics.seen:.6f} {metrics.accuracy:.5f}', table, np.histogram(metrics.guesses, bins=3)[0].tolist())
