"""Reductions go where the batch dimension disappears; the algebra behind it has tests of its own."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import check_noop, check_rewritten

LOOP = """
loader = DataLoader(data, batch_size=4)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
total, seen, kept = 0.0, 0, []
for x, y in loader:
    out = model(x)
    loss = {loss}
    loss.backward()
    optimizer.step()
    {line}
"""
MEAN = "runtime.mean(F.cross_entropy(out, y))"


def loop(line: str = "pass", loss: str = MEAN) -> str:
    return LOOP.format(loss=loss, line=line)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("F.cross_entropy(out, y)", MEAN),
        ("F.cross_entropy(out, y, reduction='sum')", "runtime.sum(F.cross_entropy(out, y, reduction='sum'))"),
        ("F.cross_entropy(out, y) + 0.1 * out.pow(2).sum()", f"{MEAN} + 0.1 * runtime.sum(out.pow(2).sum())"),
        ("torch.sqrt(F.mse_loss(out, x[:, :2]))", "torch.sqrt(runtime.mean(F.mse_loss(out, x[:, :2])))"),
    ],
)
def test_losses(before: str, after: str) -> None:
    check_rewritten("reduction", loop(loss=before), loop(loss=after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("total += (out.argmax(1) == y).sum().item()", "total += runtime.sum((out.argmax(1) == y).sum()).item()"),
        ("seen += y.size(0)", "seen += runtime.sum(y.size(0))"),
        ("seen += len(x)", "seen += runtime.sum(len(x))"),
        ("print(out.max().item())", "print(runtime.max(out.max()).item())"),
        ("print(out.min().item())", "print(runtime.min(out.min()).item())"),
        ("kept.append(out.argmax(1).tolist())", "kept.append(runtime.gather(out.argmax(1)).tolist())"),
    ],
)
def test_values_that_leave_the_iteration(before: str, after: str) -> None:
    check_rewritten("reduction", loop(before), loop(after))


@pytest.mark.parametrize(
    "line",
    [
        "print(loss.item())",
        "total += loss.item()",
        "flat = out.view(x.size(0), -1)",
        "zeros = torch.zeros(len(x), 2)",
        "print(len(loader), len(data))",
        "print(x.shape[1])",
        "seen += runtime.sum(y.size(0))",
        "total += runtime.sum((out.argmax(1) == y).sum()).item()",
    ],
)
def test_noop(line: str) -> None:
    check_noop("reduction", loop(line))


RETURNED = """
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x, y):
        logits = self.fc(x)
        return logits, F.cross_entropy(logits, y)


loader = DataLoader(data, batch_size=4)
model = Head()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    logits, loss = model(x, y)
{arrival}    loss.backward()
    optimizer.step()
"""


def test_a_loss_that_a_forward_returns() -> None:
    after = RETURNED.replace("{arrival}", "    loss = runtime.mean(loss)\n")
    check_rewritten("reduction", RETURNED.replace("{arrival}", ""), after)
