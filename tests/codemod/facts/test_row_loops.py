"""Loops over the rows of a slice inside a forward: each row by itself converts; what rows make together is told."""

from __future__ import annotations

import textwrap

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source

SCRIPT = """
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x, lens):
        h = x.sum(1)
{body}
        return self.out(h)


data = TensorDataset(torch.randn(24, 9, 4), torch.randint(1, 9, (24,)), torch.randint(0, 3, (24,)))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, n, y in DataLoader(data, batch_size=8):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x, n), y)
    loss.backward()
    optimizer.step()
"""


def told(body: str) -> set[str]:
    """The codes of errors and warnings, a warning in brackets."""
    text = SCRIPT.format(body=textwrap.indent(textwrap.dedent(body), " " * 8))
    found = rewrite_source(text.encode(), "train.py", Options()).findings
    return {f"({item.code})" if item.level == "warning" else item.code for item in found if item.level != "note"}


LENGTHS = [
    "max(lens.tolist())",
    "max(int(n) for n in lens)",
    "max([n for n in lens.tolist()])",
    "max(*lens.tolist())",
    "max(max(lens.tolist()), 3)",
    "sum(lens.tolist()) // 8",
    "sorted(lens.tolist())[-1]",
    "len(set(lens.tolist()))",
    "len([n for n in lens if n > 2])",
    "max(list(map(int, lens)))",
    "int(np.max(lens.numpy()))",
    "int(lens.topk(1).values)",
    "lens.max().item()",
]
USES = {
    "if {} > 4:\n    h = h + 1": {"DST126"},
    "for t in range({}):\n    h = h + x[:, t]": {"(DST126)"},
    "h = h + x[:, :{}].sum(1)": {"(DST126)"},
    "h = h + torch.zeros({}, 4).sum()": {"(DST126)"},
    "h = h + {}": {"DST110"},
}


@pytest.mark.parametrize("length", LENGTHS)
def test_a_number_of_the_rows_of_a_slice_is_told(length: str) -> None:
    assert {use: told(use.format(length)) for use in USES} == USES


TOGETHER = {
    "sum": "for row in x:\n    total = total + row.sum(0)",
    "sum in place": "for i in range(x.size(0)):\n    total += x[i].sum(0)",
    "last": "for row in x:\n    total = row.sum(0)",
    "longest": "for n in lens.tolist():\n    total = max(total, n)",
    "count": "for row in x:\n    if row.sum() > 0:\n        total = total + 1",
    "count but": "for row in x:\n    if row.sum() > 0:\n        continue\n    total = total + 1",
    "found": "for row in x:\n    if row.sum() > 0:\n        total = 7\n        break",
    "before": "rows = []\nfor row in x:\n    total = total * 0.5 + row.sum(0)\n    rows.append(total)\ntotal = torch.stack(rows)",
    "mean of parts": "total = torch.stack([row.sum() for row in x]).mean()",
    "mean of appended": "rows = []\nfor row in x:\n    rows.append(row.sum())\ntotal = torch.stack(rows).mean()",
    "sum of parts": "total = sum([row.sum() for row in x])",
    "one of them": "rows = [row.sum() for row in x]\ntotal = rows[0]",
    "neighbours": "total = torch.stack([x[i].sum(0) + x[i - 1].sum(0) for i in range(x.size(0))])",
    "the first": "rows = []\nfor i in range(len(x)):\n    rows.append(x[i].sum(0) * (i == 0))\ntotal = torch.stack(rows)",
    "their positions": "total = torch.stack([row.sum(0) * i for i, row in enumerate(x)])",
    "the other way": "total = torch.stack([row.sum(0) for row in reversed(x)])",
    "how many": "rows = [row for row in x if row.sum() > 0]\ntotal = len(rows)",
}  # fmt: skip


@pytest.mark.parametrize("body", TOGETHER.values(), ids=TOGETHER)
def test_rows_that_meet_are_refused(body: str) -> None:
    assert "DST110" in told(f"total = 0\n{body}\nh = h + total")


def test_a_decision_on_any_row_is_refused() -> None:
    assert told("if all(n > 5 for n in lens.tolist()) and h.size(1) == 4 and max(lens.tolist()) > 3:\n    h = h + 1")


ALONE = {
    "each": "h = h + torch.stack([row.sum(0) for row in x])",
    "appended": "rows = []\nfor row in x:\n    s = row.sum(0)\n    rows.append(s * 2)\nh = h + torch.stack(rows)",
    "up to a length": "rows = []\nfor row, n in zip(x, lens.tolist()):\n    rows.append(row[:n].mean(0))\nh = torch.stack(rows)",
    "by index": "rows = []\nfor i in range(x.size(0)):\n    rows.append(x[i, : lens[i]].sum(0))\nh = torch.stack(rows)",
    "inner loop": """
        rows = []
        for i, n in enumerate(lens.tolist()):
            s = torch.zeros(4)
            for t in range(n):
                s = s + x[i, t]
            rows.append(s)
        h = torch.stack(rows)
    """,
    "decided by row": """
        rows = []
        for row in x:
            if row.sum() > 0:
                sign = 1.0
            else:
                sign = -1.0
            rows.append(row.max(0).values * sign)
        h = torch.stack(rows)
    """,
    "joined": "h = torch.cat([row.sum(0)[None] for row in x])",
    "joined by name": "rows = []\nfor row in x:\n    rows.append(row.sum(0).unsqueeze(0))\nh = torch.cat(rows)",
}  # fmt: skip


@pytest.mark.parametrize("body", ALONE.values(), ids=ALONE)
def test_rows_by_themselves_convert(body: str) -> None:
    assert told(body) == set()
