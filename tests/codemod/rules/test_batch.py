"""Hand-made batches are split once, and random numbers per sample are drawn for the whole batch."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import check_noop, check_rewritten

HAND = """
inputs, labels = torch.randn(40, 4), torch.zeros(40, dtype=torch.long)


def get_batch():
    rows = torch.randint(40, (8,))
    return inputs[rows], labels[rows]


model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    x, y = {batch}
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""

NOISE = """
loader = DataLoader(data, batch_size=4)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    noise = {noise}
    loss = F.cross_entropy(model(x + noise), y)
    loss.backward()
    optimizer.step()
"""


def test_split() -> None:
    check_rewritten("batch", HAND.format(batch="get_batch()"), HAND.format(batch="runtime.split(get_batch())"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.randn_like(x)", "runtime.draw(torch.randn_like, x)"),
        ("torch.randn(x.size(0), 4)", "runtime.draw(torch.randn, x.size(0), 4)"),
        ("torch.rand(x.shape)", "runtime.draw(torch.rand, x.shape)"),
        (
            "torch.randn(\n        len(x),\n        4,\n    )",
            "runtime.draw(\n        torch.randn, len(x),\n        4,\n    )",
        ),
    ],
)
def test_draw(before: str, after: str) -> None:
    check_rewritten("batch", NOISE.format(noise=before), NOISE.format(noise=after))


@pytest.mark.parametrize(
    "noise", ["torch.randn(1, 4)", "torch.rand(1)", "0.1 * torch.ones_like(x)", "torch.rand(()).item()"]
)
def test_noise_without_batch_dimension_stays(noise: str) -> None:
    check_noop("batch", NOISE.format(noise=noise))


def test_loaders_are_not_split() -> None:
    check_noop("batch", "z = torch.randn(4, 4)")


def test_fixed_noise_stays() -> None:
    text = """
    fixed = torch.randn(8, 4)
    loader = DataLoader(data, batch_size=4)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(model(fixed).mean().item())
    """
    check_noop("batch", text)


def test_converted() -> None:
    check_noop("batch", HAND.format(batch="runtime.split(get_batch())"))
    check_noop("batch", NOISE.format(noise="runtime.draw(torch.randn_like, x)"))
