"""Batches that are parts of data, picked by bounds that move, kept for later, or given to CTC end to end."""

from __future__ import annotations

import pytest

from tests.codemod.facts.snippets import edits, facts_of

DATA = """
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

X, Y = torch.randn(29, 4), torch.randint(0, 3, (29,))
model = nn.Linear(4, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
order = np.random.permutation(29)


def pick(k):
    first = k * 7
    return X[first : first + 7], Y[first : first + 7]


parts = [(X[i : i + 7], Y[i : i + 7]) for i in range(0, 29, 7)]
kept = []
for i in range(0, 29, 7):
    kept.append((X[i : i + 7], Y[i : i + 7]))
for {loop}:
    {body}
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
"""

PICKED = [
    ("k in range(5)", "start = k * 7\n    end = min(start + 7, len(X))\n    x, y = X[start:end], Y[start:end]",
     ["X[start:end], Y[start:end]"]),
    ("k in range(5)", "x, y = pick(k)", ["pick(k)"]),
    ("k in np.random.permutation(4)", "x, y = pick(k)", ["pick(k)"]),
    ("x, y in parts", "pass", ["x, y"]),
    ("x, y in kept", "pass", ["x, y"]),
    ("k in range(9)", "x, y = random.choice(kept)", ["random.choice(kept)"]),
    ("k in range(4)", "x, y = parts[k]", ["parts[k]"]),
    ("part in np.array_split(order, 5)", "x, y = X[part], Y[part]", ["X[part], Y[part]"]),
    ("k in range(4)", "x, y = X[k * 7 : (k + 1) * 7], Y[k * 7 : (k + 1) * 7]",
     ["X[k * 7 : (k + 1) * 7], Y[k * 7 : (k + 1) * 7]"]),
]  # fmt: skip


@pytest.mark.parametrize(("loop", "body", "expected"), PICKED)
def test_what_is_split(loop: str, body: str, expected: list[str]) -> None:
    facts = facts_of(DATA.format(loop=loop, body=body))
    assert [facts.text(split.node) for split in facts.splits] == expected
    assert not facts.findings


SEQUENCES = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

rows = [(torch.randn(12, 5), torch.randint(1, 6, (2 + i % 3,))) for i in range(23)]
model = nn.Linear(5, 6)
opt = torch.optim.SGD(model.parameters(), lr=0.1)


def collate(batch):
    xs, ys = zip(*batch)
    return torch.stack(xs), list(ys)


{loop}
    out = model(x).log_softmax(2).transpose(0, 1)
    lengths = torch.tensor([len(y) for y in ys])
    loss = F.ctc_loss(out, {targets}, {steps}, lengths)
    loss.backward()
    opt.step()
"""
LOADED = "for x, ys in DataLoader(rows, 5, collate_fn=collate):"
BY_HAND = """for i in range(0, 23, 5):
    picked = rows[i : i + 5]
    x, ys = torch.stack([row[0] for row in picked]), [row[1] for row in picked]"""
STEPS = "torch.IntTensor([12] * x.size(0))"
LENGTHS = "torch.tensor([len(y) for y in ys])"


@pytest.mark.parametrize(
    ("loop", "targets", "expected"),
    [
        # what is laid end to end of a list that is cut belongs to this rank's rows
        (LOADED, "torch.cat(ys)", {f"split({LENGTHS})"}),
        # of a whole list it can't be cut: the outputs are made whole
        (BY_HAND, "torch.cat(ys)", {"gather(out, dim=1)"}),
        (BY_HAND, "nn.utils.rnn.pad_sequence(ys, batch_first=True)", {f"split({LENGTHS})"}),
    ],
)
def test_ctc(loop: str, targets: str, expected: set[str]) -> None:
    found = set(edits(facts_of(SEQUENCES.format(loop=loop, targets=targets, steps=STEPS))))
    assert expected <= found
    assert ("gather(out, dim=1)" in found) == ("gather(out, dim=1)" in expected)


IMAGES = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

rows = [(torch.randn(4), {"boxes": torch.rand(1 + i % 3, 2)}) for i in range(23)]
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for images, targets in DataLoader(rows, 5, collate_fn=lambda batch: tuple(zip(*batch))):
    out = model(torch.stack(images))
    loss = 0
    for i, target in enumerate(targets):
        loss = loss + F.l1_loss(out[i].expand(len(target["boxes"]), 2), target["boxes"])
    loss = loss / len(images)
    loss.backward()
    opt.step()
"""


def test_a_loss_image_by_image_is_one_of_whole_batches() -> None:
    """A list with an image for each sample, stacked, has the samples first: picked by number, they are gathered."""
    found = edits(facts_of(IMAGES))
    assert "gather(out)" in found
    assert "sum(len(images))" in found
    assert not [edit for edit in found if edit.startswith("mean(")]
