"""Losses that scripts divide by a count themselves: windows of small batches train as one large batch does."""

from __future__ import annotations

from pathlib import Path

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source
from tests.parity.compare import assert_output_equal
from tests.pool import Pool

SCRIPT = """\
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
size = int(sys.argv[1])
inputs = torch.randn(58, 4)
targets = torch.randint(0, 3, (58,))
loader = DataLoader(TensorDataset(inputs, targets), batch_size=size, shuffle=True)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def terms(out, y):
    fit = F.cross_entropy(out, y, reduction="sum")
    spread = (out**2).sum()
    return fit + 0.01 * spread


for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        mask = (y != 1).float()
        {loss}
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
print(*model.weight.flatten().tolist(), *model.bias.tolist())
"""

LOSSES = {
    "rows": "loss = terms(out, y) / len(y)",
    "named rows": "n = x.size(0)\n        loss = terms(out, y) / n",
    "mask": "loss = (F.cross_entropy(out, y, reduction='none') * mask).sum() / mask.sum()",
    "guarded mask": "loss = (F.cross_entropy(out, y, reduction='none') * mask).sum() / mask.sum().clamp(min=1)",
    "named count": "n = mask.sum()\n        loss = (F.cross_entropy(out, y, reduction='none') * mask).sum() / n",
    "in a function": "loss = torch.div(terms(out, y), y.shape[0])",
}


@pytest.mark.parametrize("name", LOSSES)
def test_windows_of_quotients(name: str, pool1: Pool, pool2: Pool, tmp_path: Path) -> None:
    """58 rows: windows of four batches of 5, the last of two batches, of 5 and 3 rows."""
    source = SCRIPT.replace("{loss}", LOSSES[name])
    original, converted = tmp_path / "original.py", tmp_path / "converted.py"
    original.write_text(source)
    result = rewrite_source(source.encode(), "train.py", Options(backend="ddp", accumulate=4))
    assert not result.findings
    converted.write_bytes(result.data)
    expected = pool1.script(original, ["20"], tmp_path).check().stdout
    assert_output_equal(expected, pool2.script(converted, ["5"], tmp_path).check().stdout)
    assert_output_equal(expected, pool1.script(converted, ["5"], tmp_path).check().stdout)
