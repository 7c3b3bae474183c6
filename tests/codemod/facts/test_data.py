"""Batches in every form: what collate functions return, structures of samples, batches made by hand."""

from __future__ import annotations

import pytest

from distify.codemod.facts.values import Dep
from tests.codemod.facts.snippets import codes, edits, facts_of, value_of

LOADED = """
import random
from collections import deque, namedtuple
from functools import partial
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, default_collate

model = nn.Linear(4, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
rows = [(torch.randn(4), i % 3) for i in range(29)]

{head}

for batch in {source}:
    {body}
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
"""


def looped(body: str, source: str = "DataLoader(rows, 7, collate_fn=collate)", head: str = "") -> str:
    return LOADED.format(head=head, source=source, body=body.replace("\n", "\n    "))


COLLATES = {
    "by hand": (
        "def collate(rows):\n    x = torch.zeros(4, len(rows))\n    return x, torch.tensor([r[1] for r in rows])",
        [(Dep.SAMPLE, 1), (Dep.SAMPLE, 0)],
    ),
    "counts": (
        "def collate(rows):\n    x = torch.stack([r[0] for r in rows])\n    return x, len(rows), sum(r[1] for r in rows)",
        [(Dep.SAMPLE, 0), (Dep.ROWS, None), (Dep.GLOBAL, None)],
    ),
    "extremes": (
        "def collate(rows):\n    x, y = zip(*rows)\n    return torch.stack(x), max(y), [r + 1 for r in y]",
        [(Dep.SAMPLE, 0), (Dep.GLOBAL, None), (Dep.SAMPLE, 0)],
    ),
    "default": (
        "def collate(rows):\n    x, y = default_collate(rows)\n    return x, y.sum(), x.size(0)",
        [(Dep.SAMPLE, 0), (Dep.GLOBAL, None), (Dep.ROWS, None)],
    ),
    "bound": (
        "def make(dim, rows):\n    return torch.stack([r[0] for r in rows], dim), torch.tensor([r[1] for r in rows])\n"
        "collate = partial(make, 1)",
        [(Dep.SAMPLE, 1), (Dep.SAMPLE, 0)],
    ),
    "lambda": (
        "collate = lambda rows: (pad_sequence([r[0] for r in rows]), len(rows))",
        [(Dep.SAMPLE, 1), (Dep.ROWS, None)],
    ),
}


@pytest.mark.parametrize("name", COLLATES)
def test_what_a_collate_function_returns(name: str) -> None:
    head, expected = COLLATES[name]
    items = [f"part{i}" for i in range(len(expected))]
    body = f"{', '.join(items)} = batch\nx = part0{'.t()' if expected[0][1] else ''}\ny = x.argmax(1)"
    facts = facts_of(looped(body, head=head))
    found = [item.batch for item in value_of(facts, "batch").items or ()]
    assert [(batch.dep, batch.dim) for batch in found] == expected


def test_nothing_in_a_collate_function_is_edited() -> None:
    head = (
        "def collate(rows):\n    x = torch.stack([r[0] for r in rows])\n    longest = x.sum(1).max().item()\n"
        "    print(x.shape, longest, len(rows), x[0].tolist())\n    return x, torch.tensor([r[1] for r in rows])"
    )
    assert edits(facts_of(looped("x, y = batch", head=head))) == ["mean(F.cross_entropy(model(x), y))"]


MEAN = ["mean(F.cross_entropy(model(x), y))"]
BY_HAND = [
    (
        "picked = random.sample(rows, 7)\nx = torch.stack([r[0] for r in picked])\ny = torch.tensor([r[1] for r in picked])",
        ["split(torch.stack([r[0] for r in picked]))", "split(torch.tensor([r[1] for r in picked]))"],
    ),
    (
        "xs, ys = zip(*random.sample(rows, 7))\nx, y = torch.stack(xs), torch.tensor(ys)",
        ["split(torch.stack(xs), torch.tensor(ys))"],
    ),
    (
        "xs, ys = [], []\nfor a, b in random.sample(rows, 7):\n    xs.append(a)\n    ys.append(b)\n"
        "x = torch.stack(xs)\ny = torch.tensor(ys)",
        ["split(torch.stack(xs))", "split(torch.tensor(ys))"],
    ),
    (
        "picked = rng.choice(29, 7)\nx, y = X[picked], Y[picked]",
        ["split(X[picked], Y[picked])"],
    ),
    (
        "x = torch.rand(7, 4)\ny = (x.sum(1) > 2).long()",
        ["split(torch.rand(7, 4))"],
    ),
    (
        "drawn = rng.normal(0, 1, (7, 4))\nx, y = torch.tensor(drawn), torch.tensor(drawn.argmax(1))",
        ["split(torch.tensor(drawn), torch.tensor(drawn.argmax(1)))"],
    ),
    (
        "picked = memory(*zip(*random.sample(rows, 7)))\nx = torch.stack(picked.a)\ny = torch.tensor(picked.b)",
        ["split(torch.stack(picked.a))", "split(torch.tensor(picked.b))"],
    ),
]


@pytest.mark.parametrize(("body", "expected"), BY_HAND)
def test_batches_made_by_hand(body: str, expected: list[str]) -> None:
    head = (
        "X, Y = torch.randn(29, 4), torch.randint(0, 3, (29,))\nrng = np.random.default_rng(0)\n"
        "memory = namedtuple('memory', 'a b')"
    )
    facts = facts_of(looped(body, "range(5)", head))
    found = [text for text in edits(facts) if text.startswith("split")]
    assert found == [text if "split(X" not in text else "split(X[picked], Y[picked])" for text in expected]
    assert "DST118" not in codes(facts)


def test_rows_written_one_by_one_are_split_where_they_are_used() -> None:
    head = (
        "def bag(picked):\n    x = torch.zeros(len(picked), 4)\n    for i, row in enumerate(picked):\n"
        "        x[i, 0] = row[1]\n        x[i, 1] += 1\n    return x"
    )
    body = "picked = random.sample(rows, 7)\nx = bag(picked)\ny = torch.tensor([r[1] for r in picked])"
    found = edits(facts_of(looped(body, "range(5)", head)))
    assert "split(bag(picked))" in found
    assert not any(text.startswith("gather") for text in found)


NAMED = [
    ("Point = namedtuple('Point', 'x y more')", "Point(rows[i][0], rows[i][1], {'pos': (i, i)})"),
    ("Point = namedtuple('Point', ['x', 'y', 'more'])", "Point(x=rows[i][0], y=rows[i][1], more={'pos': (i, i)})"),
    (
        "class Point(NamedTuple):\n    x: torch.Tensor\n    y: int\n    more: dict",
        "Point(rows[i][0], rows[i][1], dict(pos=(i, i)))",
    ),
]


@pytest.mark.parametrize(("kind", "sample"), NAMED)
def test_named_tuples_of_a_data_set(kind: str, sample: str) -> None:
    head = (
        f"from typing import NamedTuple\n{kind}\nclass Points(Dataset):\n    def __len__(self):\n        return 29\n"
        f"    def __getitem__(self, i):\n        return {sample}"
    )
    body = "x, y, at = batch.x, batch.y, batch.more['pos']\nprint(at[1].tolist())"
    facts = facts_of(looped(body, "DataLoader(Points(), 7)", head))
    assert edits(facts) == ["gather(at[1])", *MEAN]


def test_a_dict_comprehension_keeps_what_each_key_holds() -> None:
    head = "def collate(rows):\n    return {'x': torch.stack([r[0] for r in rows]), 'y': default_collate(rows)[1], 'n': len(rows)}"
    body = "batch = {k: v.to('cpu') if torch.is_tensor(v) else v for k, v in batch.items()}\nx, y = batch['x'], batch['y']\nprint(batch['n'])"
    assert edits(facts_of(looped(body, head=head))) == ["sum(batch['n'])", *MEAN]


def test_a_line_that_meets_slices_and_whole_data_is_refused() -> None:
    source = looped("x, y = batch", "DataLoader(rows, 7)").replace(
        "    loss = F.cross_entropy(model(x), y)", "    loss = loss_of(x, y)"
    )
    head = "def loss_of(x, y):\n    return F.cross_entropy(model(x), y)\nX, Y = torch.randn(29, 4), torch.randint(0, 3, (29,))\n"
    source = source.replace("\nfor batch", f"\n{head}\nfor batch") + "    print(loss_of(X, Y).item())\n"
    assert "DST102" in codes(facts_of(source))


def test_loaders_in_an_unknown_number_are_refused() -> None:
    body = "x, y = batch[0]"
    source = "zip(*[DataLoader(rows[i::2], 7) for i in range(2)])"
    assert "DST102" in codes(facts_of(looped(body, source)))


def test_lengths_of_what_an_unknown_collate_function_made_are_refused() -> None:
    """`batch.y` may be a tensor, whose slices are counted, or a tuple, whose parts are not."""
    head = "from elsewhere import collate"
    counted = "x, y = batch.x, batch.y\nn = SIZE\nprint(n)"
    assert "DST110" in codes(facts_of(looped(counted.replace("SIZE", "len(batch.y)"), head=head)))
    facts = facts_of(looped(counted.replace("SIZE", "batch.y.size(0)"), head=head))
    assert "DST110" not in codes(facts)
    assert "sum(n)" in edits(facts)
