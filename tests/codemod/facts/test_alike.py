"""Random numbers of a forward: the batch's are drawn alike on all ranks, those of samples by each rank."""

from __future__ import annotations

import pytest

from tests.codemod.facts.snippets import facts_of

SOURCE = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.start = torch.rand(3)

    def forward(self, x):
        out = self.fc(x)
        {line}
        return out

    def sample(self, n):
        return self.fc(torch.randn(n, 4))


model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(torch.randn(29, 4), torch.randint(0, 3, (29,))), batch_size=7):
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(model.sample(2))
"""
ALIKE = {
    "out = out if torch.rand(1).item() < 0.5 else 2 * out": ["torch.rand"],
    "out = out if torch.rand([]) < 0.5 else 2 * out": ["torch.rand"],
    "out = out if torch.randint(0, 2, (1,)).item() else 2 * out": ["torch.randint"],
    "out = out if torch.bernoulli(torch.tensor(0.5)) else 2 * out": ["torch.bernoulli"],
    "out = out * torch.empty(1).uniform_(0, 1)": ["torch.empty(1).uniform_"],
    "out = out * x.new_empty(1).normal_()": ["x.new_empty(1).normal_"],
    "out = out[:, torch.randperm(out.size(1))]": ["torch.randperm"],
    "out = out[:, torch.randperm(3, device=x.device)]": ["torch.randperm"],
    "out = out * torch.rand((), device=x.device, dtype=out.dtype)": ["torch.rand"],
    "out = out + torch.randn_like(self.fc.bias)": ["torch.randn_like"],
}
APART = [
    "out = out + torch.randn_like(out)",
    "out = out * torch.rand(out.size(0), 1)",
    "out = out * torch.rand(out.shape)",
    "out = out * torch.empty_like(out).uniform_()",
    "out = out * out.new_empty(out.size(0), 1).bernoulli_(0.5)",
    "out = F.dropout(out)",
    "out = out * torch.rand(int((out > 0).sum())).mean()",
    "out = out * torch.rand(1, generator=self.generator)",
]


@pytest.mark.parametrize(("line", "callees"), ALIKE.items(), ids=ALIKE)
def test_drawn_alike(line: str, callees: list[str]) -> None:
    facts = facts_of(SOURCE.format(line=line))
    assert [facts.text(call.func) for call in facts.alike] == callees


@pytest.mark.parametrize("line", APART)
def test_drawn_apart(line: str) -> None:
    assert not facts_of(SOURCE.format(line=line)).alike


def test_drawn_alike_already() -> None:
    source = SOURCE.format(line="out = out * runtime.replicated(torch.rand, 1)")
    assert not facts_of("from distify import runtime\n" + source).alike
