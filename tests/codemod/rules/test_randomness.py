"""Notes on what is equal in distribution only."""

from __future__ import annotations

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source

SCRIPT = """\
import random
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Data(Dataset):
    def __init__(self):
        self.x = torch.randn(29, 4)
        self.noise = np.random.rand(3)

    def __len__(self):
        return 29

    def __getitem__(self, i):
        self.change(i)
        return self.x[i]

    def change(self, i):
        {sample}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scale = torch.rand(1)

    def forward(self, x):
        {forward}
        return self.fc(x)


model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(Data(), batch_size=7):
    loss = (model(x) - x + {loop}).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def found(sample: str = "pass", forward: str = "pass", loop: str = "0") -> list[tuple[str, int]]:
    source = SCRIPT.format(sample=sample, forward=forward, loop=loop)
    result = rewrite_source(source.encode(), "train.py", Options())
    return [(f.code, f.span.line) for f in result.findings if f.code in ("DST113", "DST123")]


@pytest.mark.parametrize(
    "sample",
    [
        "i = random.randint(0, 5)",
        "i = np.random.choice(5)",
        "i = int(torch.randint(5, (1,)))",
        "random.shuffle([1, 2])",
    ],
)
def test_numbers_of_a_sample(sample: str) -> None:
    assert found(sample=sample) == [("DST113", 22)]


@pytest.mark.parametrize(
    "forward", ["x = F.dropout(x)", "x = x + torch.randn_like(x)", "x = x * (np.random.rand() + 1)"]
)
def test_numbers_inside_a_forward(forward: str) -> None:
    assert found(forward=forward) == [("DST123", 32)]


@pytest.mark.parametrize("loop", ["0", "torch.randn_like(x)", "torch.rand(1)", "np.random.rand()", "random.random()"])
def test_numbers_elsewhere_are_the_original_s(loop: str) -> None:
    assert found(loop=loop) == []


def test_a_seeded_generator_is_no_draw() -> None:
    assert found(sample="i = np.random.RandomState(i)") == []
