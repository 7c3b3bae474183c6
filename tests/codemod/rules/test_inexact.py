"""`--accumulate` and what a window can't give: nonlinear losses, and results that outlive the window's end."""

from __future__ import annotations

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), batch_size=4)
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    opt.zero_grad()
    loss = {loss}
    loss.backward()
    {clip}
    opt.step()
    print(loss.item(){shown})
"""


def codes(
    loss: str = "((model(x) - y) ** 2).mean()", clip: str = "pass", shown: str = "", accumulate: int = 4
) -> set[str]:
    source = SCRIPT.format(loss=loss, clip=clip, shown=shown).encode()
    result = rewrite_source(source, "train.py", Options(accumulate=accumulate))
    return {item.code for item in result.findings} & {"DST212", "DST213"}


@pytest.mark.parametrize(
    "loss",
    [
        "((model(x) - y) ** 2).mean().sqrt()",
        "torch.sqrt(((model(x) - y) ** 2).mean())",
        "((model(x) - y) ** 2).sum() / (y > 0).sum()",
        "((model(x) - y) ** 2).mean() ** 0.5",
    ],
)
def test_nonlinear_losses_are_reported(loss: str) -> None:
    assert codes(loss) == {"DST212"}
    assert codes(loss, accumulate=1) == set()


@pytest.mark.parametrize(
    "loss",
    [
        "((model(x) - y) ** 2).mean()",
        "((model(x) - y) ** 2).sum() / 100",
        "0.5 * ((model(x) - y) ** 2).mean() + 2 * (model(x) - y).abs().mean()",
    ],
)
def test_sums_of_means_are_not(loss: str) -> None:
    assert codes(loss) == set()


def test_a_name_of_the_end_of_the_window_used_for_every_batch() -> None:
    clip = "norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    assert codes(clip=clip, shown=", norm.item()") == {"DST213"}
    assert codes(clip=clip) == set()
    assert codes(clip=clip, shown=", norm.item()", accumulate=1) == set()


BY_HAND = """\
import torch
from torch import nn
x, y = torch.randn(32, 4), torch.randn(32, 1)
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    order = torch.randperm(32)
    for i in range(0, 32, 5):
        part = order[i:i + 5]
        a, b = x[part], y[part]
        opt.zero_grad()
        loss = ((model(a) - b) ** 2).mean()
        loss.backward()
        opt.step()
"""


def test_the_last_batch_of_those_made_by_hand_is_not_known() -> None:
    result = rewrite_source(BY_HAND.encode(), "train.py", Options(accumulate=4))
    assert [item.code for item in result.findings if item.code == "DST214"] == ["DST214"]
    told = result.data.replace(b"accumulate() as", b"accumulate(last=i + 5 >= 32) as")
    assert told != result.data
    again = rewrite_source(told, "train.py", Options(accumulate=4))
    assert again.data == told
    assert not [item.code for item in again.findings if item.code == "DST214"]
