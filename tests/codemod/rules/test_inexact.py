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


def rewritten(body: str, accumulate: int = 4) -> tuple[str, set[str]]:
    """A script whose loop has these lines for its loss, converted, and the codes of what was found."""
    lines = body.strip("\n").replace("\n", "\n    ")
    source = SCRIPT.replace("loss = {loss}", lines).replace("{clip}", "pass").replace("{shown}", "")
    result = rewrite_source(source.encode(), "train.py", Options(accumulate=accumulate))
    again = rewrite_source(result.data, "train.py", Options(accumulate=accumulate))
    assert again.data == result.data
    return result.data.decode(), {item.code for item in result.findings} & {"DST212", "DST215"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "loss = ((model(x) - y) ** 2).sum() / len(x)",
            "loss = runtime.averaged(runtime.sum(((model(x) - y) ** 2).sum()) / runtime.sum(len(x)))",
        ),
        (
            "n = x.size(0)\ntotal = (model(x) - y).abs().sum()\nloss = total / n",
            "runtime.averaged(total / runtime.sum(n))",
        ),
        ("total = (model(x) - y).abs().sum()\nloss = total / 4", "loss = runtime.averaged(total / 4, by=4)"),
        (
            "m = (y > 0).sum()\nloss = (model(x) - y).abs().sum() / m",
            "loss = runtime.averaged(runtime.sum((model(x) - y).abs().sum()) / m, by=m)",
        ),
        (
            "loss = (model(x) - y).abs().sum() / (y > 0).sum().clamp(min=1)",
            "/ runtime.sum((y > 0).sum()).clamp(min=1), by=runtime.sum((y > 0).sum()))",
        ),
        (
            "total = (model(x) - y).abs().sum()\nloss = torch.div(total, len(x))",
            "loss = runtime.averaged(torch.div(total, runtime.sum(len(x))))",
        ),
    ],
)
def test_sums_divided_by_a_count_of_the_batch_weigh_as_means(body: str, expected: str) -> None:
    text, found = rewritten(body)
    assert expected in text
    assert not found
    assert "averaged" not in rewritten(body, accumulate=1)[0]


@pytest.mark.parametrize(
    "body",
    [
        "loss = ((model(x) - y) ** 2).sum()",
        "loss = ((model(x) - y) ** 2).sum() / 100",
        "loss = ((model(x) - y) ** 2).sum() + 3 * (model(x) - y).abs().mean()",
        "loss = sum([((model(x) - y) ** 2).mean(), (model(x) - y).abs().sum()])",
        "loss = ((model(x) - y) ** 2).mean()\nshare = loss.item() / len(x)",
        "loss = ((model(x) - y) ** 2).mean()\nrmse = loss.detach().sqrt()",
        "hits = ((model(x) > 0) == (y > 0)).sum() / len(x)\nloss = ((model(x) - y) ** 2).mean()",
    ],
)
def test_linear_losses_and_metrics_are_left_as_they_are(body: str) -> None:
    text, found = rewritten(body)
    assert "averaged" not in text
    assert not found


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("loss = ((model(x) - y) ** 2).sum().sqrt()", "DST215"),
        ("loss = ((model(x) - y) ** 2).sum()\nloss /= len(x)", "DST215"),
        ("loss = ((model(x) - y) ** 2).sum() * (1 / len(x))", "DST215"),
        ("mse = ((model(x) - y) ** 2).mean()\nloss = torch.sqrt(mse)", "DST212"),
        ("mse = ((model(x) - y) ** 2).mean()\nl1 = (model(x) - y).abs().mean()\nloss = mse * l1", "DST212"),
        ("l = ((model(x) - y) ** 2).mean(1)\nloss = l.topk(2)[0].mean()", "DST212"),
    ],
)
def test_losses_that_a_window_cannot_add_up(body: str, code: str) -> None:
    assert rewritten(body)[1] == {code}
    assert not rewritten(body, accumulate=1)[1]


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
