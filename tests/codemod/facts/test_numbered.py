"""Numbers of a slice's rows inside a forward: refused where they tell rows apart, and streams that would go apart."""

from __future__ import annotations

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source

SOURCE = """
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.place, self.out = nn.Linear(6, 8), nn.Embedding(16, 8), nn.Linear(8, 3)

    def numbers(self, x):
        return torch.arange(x.shape[0])

    def forward(self, x):
        h = F.relu(self.fc(x))
        BODY
        return self.out(h)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(torch.randn(38, 6), torch.randint(0, 3, (38,))), batch_size=8):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CASES = [
    ("h = h + self.place(torch.arange(len(x)))", ["DST111"]),
    ("h = h + self.place(self.numbers(x))", ["DST111"]),
    ("h = h + self.place.weight[torch.arange(x.size(0))]", ["DST111"]),
    ("h = h * torch.arange(len(x)).float().unsqueeze(1)", ["DST111"]),
    ("h = torch.where(torch.arange(len(x))[:, None] % 2 == 0, h, -h)", ["DST111"]),
    ("h = h * torch.tensor(list(range(len(x)))).unsqueeze(1)", ["DST111"]),
    ("h = h + self.place(torch.from_numpy(np.arange(len(x))))", ["DST111"]),
    ("h = torch.stack([row + self.place.weight[i] for i, row in enumerate(h)])", ["DST111"]),
    ("h = h[torch.arange(len(x))]", []),
    ("h = h.view(len(x), 2, 4)[torch.arange(len(x)), (x[:, 0] > 0).long()].repeat(1, 2)", []),
    ("h = h + torch.from_numpy(np.zeros((len(x), 8), dtype=np.float32))", []),
    ("h = h + self.place(torch.arange(x.size(1))).mean(0)", []),
    ("h = h * torch.tensor([random.random() for _ in range(len(x))])[:, None]", ["DST105"]),
    ("h = h * torch.from_numpy(np.random.rand(len(x), 8)).float()", ["DST105"]),
    ("h = torch.stack([row * random.randint(1, 3) for row in h])", ["DST105"]),
    ("h = h * 2 if random.random() < 0.5 else h", []),
]


@pytest.mark.parametrize(("body", "expected"), CASES)
def test_forwards(body: str, expected: list[str]) -> None:
    result = rewrite_source(SOURCE.replace("BODY", body).encode(), "train.py", Options())
    assert [item.code for item in result.findings if item.level == "error"] == expected
