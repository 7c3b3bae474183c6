"""A conversion is the same every time: sets of nodes and functions are ordered by addresses in memory, texts are not."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from distify.codemod.options import Options
from distify.codemod.plan import make_plans
from distify.codemod.program import Program

SQUEEZED = """\
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.pool = nn.AdaptiveMaxPool1d(1)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.pool(x).squeeze())
"""
NORMED = """\
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.norm(x).mean(2, keepdim=True).squeeze())
"""
WRAPPED = """\
from .squeezed import Net as Base


class Net(Base):
    def forward(self, x):
        return -super().forward(x)
"""
TRAIN = """\
import importlib
import sys

import torch
import torch.nn.functional as F
from data import Rows

name = sys.argv[1]
kinds = importlib.import_module("nets." + name)
model = kinds.Net(4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scales = {"plain": lambda loss: loss, "twice": lambda loss: 2 * loss}
rows = []
for line in open("rows.txt"):
    values, label = line.split("\\t")
    rows.append(([float(value) for value in values.split()], int(label)))
for x, y in Rows(rows, 6):
    out = model(x)
    loss = scales[name](F.cross_entropy(out, y))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
DATA = """\
import torch


class Rows:
    def __init__(self, rows, size):
        self.rows, self.size, self.index = rows, size, 0

    def __iter__(self):
        return self

    def pick(self, rows):
        return torch.tensor([row[0] for row in rows]), torch.tensor([row[1] for row in rows])

    def __next__(self):
        if self.index >= len(self.rows):
            raise StopIteration
        rows = self.rows[self.index : self.index + self.size]
        self.index += self.size
        return self.pick(rows)
"""
FILES = {
    "train.py": TRAIN,
    "data.py": DATA,
    "nets/__init__.py": "",
    "nets/normed.py": NORMED,
    "nets/squeezed.py": SQUEEZED,
    "nets/wrapped.py": WRAPPED,
}


def _shake(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Let nodes be hashed by random numbers, as if they lay at other addresses."""
    draw, drawn = random.Random(seed), dict[int, tuple[ast.AST, int]]()

    def hashed(node: ast.AST) -> int:
        return drawn.setdefault(id(node), (node, draw.getrandbits(60)))[1]

    for kind in vars(ast).values():
        if isinstance(kind, type) and issubclass(kind, ast.AST):
            monkeypatch.setattr(kind, "__hash__", hashed, raising=False)


def _plans(path: Path) -> list[str]:
    program = Program.load(str(path), path.read_text(), lambda name: Path(name).read_text())
    found = []
    for module, plan in make_plans(program, Options(backend="ddp")):
        found += [f"{module.path}: {item!r}" for item in (*plan.edits, *plan.findings)]
    return found


@pytest.fixture
def written(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path / "train.py"

    return write


def test_a_conversion_does_not_depend_on_addresses(
    written: Callable[[dict[str, str]], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(FILES)
    first = _plans(path)
    assert any("'split'" in item for item in first)
    for seed in range(6):
        with monkeypatch.context() as patch:
            _shake(patch, seed)
            assert _plans(path) == first


def test_the_parity_programs_do_not_depend_on_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in sorted(Path(__file__).parents[1].glob("parity/programs/*/train.py")):
        first = _plans(path)
        assert len(first) > 3
        with monkeypatch.context() as patch:
            _shake(patch, 1)
            assert _plans(path) == first


def test_classes_of_one_name_are_told_apart(written: Callable[[dict[str, str]], Path]) -> None:
    found = "\n".join(_plans(written(FILES)))
    assert "squeezed.py: Finding(code='DST108'" in found  # squeeze() without a dimension
    assert "normed.py: Finding(code='DST108'" in found
