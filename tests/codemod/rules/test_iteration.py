"""Parts of data that a loop goes over are cut where its body begins."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import check_noop, check_rewritten

PARTS = """
inputs, labels = torch.randn(40, 4), torch.zeros(40, dtype=torch.long)
order = torch.randperm(40)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for {loop}:
{cut}    {body}
    optimizer.zero_grad()
    loss = F.cross_entropy(model({x}), {y})
    loss.backward()
    optimizer.step()
"""
PAIR = ("    x, y = runtime.split((x, y))\n", "x", "y")


@pytest.mark.parametrize(
    "loop",
    [
        "x, y in zip(inputs.split(6), labels.split(6))",
        "x, y in zip(torch.split(inputs, 6), torch.split(labels, 6))",
        "x, y in zip(inputs.chunk(5), torch.chunk(labels, 5, dim=0))",
        "i, (x, y) in enumerate(zip(inputs.tensor_split(5), labels.tensor_split(5)))",
        "[x, y] in list(zip(inputs.split(6), labels.split(6)))",
    ],
)
def test_pairs(loop: str) -> None:
    cut, x, y = PAIR
    given = {"loop": loop, "x": x, "y": y, "body": "x.size(0)"}
    check_rewritten("iteration", PARTS.format(cut="", **given), PARTS.format(cut=cut, **given))


def test_one_name_for_both() -> None:
    given = {"loop": "pair in zip(inputs.split(6), labels.split(6))", "x": "x", "y": "y", "body": "x, y = pair"}
    cut = "    pair = runtime.split(pair)\n"
    check_rewritten("iteration", PARTS.format(cut="", **given), PARTS.format(cut=cut, **given))


@pytest.mark.parametrize(
    "given",
    [
        # what the parts of an index pick is the batch
        {"loop": "part in order.split(6)", "x": "inputs[part]", "y": "labels[part]", "body": "pass"},
        # words of a text, and parts along another dimension, are no batches
        {"loop": "word in 'a b c'.split(' ')", "x": "inputs", "y": "labels", "body": "print(word)"},
        {"loop": "part in inputs.split(2, dim=1)", "x": "inputs", "y": "labels", "body": "print(part.sum())"},
        {"loop": "part in model.fc.weight.split(2)", "x": "inputs", "y": "labels", "body": "print(part.sum())"},
    ],
)
def test_left_alone(given: dict[str, str]) -> None:
    check_noop("iteration", PARTS.format(cut="", **given))
