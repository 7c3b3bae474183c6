"""`itertools.cycle` over loaders that feed a model; other iterables are gone round as before."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import check_noop, check_rewritten

TRAIN = """
import itertools
from itertools import cycle
loader = runtime.shard(DataLoader(data, batch_size=4))
other = runtime.shard(DataLoader(data, batch_size=4))
names = ["a", "b"]
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
def batches():
    yield from loader
for {}:
    loss = runtime.mean(F.cross_entropy(model(x), y))
    runtime.backward(loss)
    runtime.step(optimizer)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x, y in itertools.cycle(loader)", "x, y in runtime.cycle(loader)"),
        ("x, y in cycle(loader)", "x, y in runtime.cycle(loader)"),
        ("x, y in cycle(batches())", "x, y in runtime.cycle(batches())"),
        ("(x, y), (c, d) in cycle(zip(loader, other))", "(x, y), (c, d) in runtime.cycle(zip(loader, other))"),
        ("(x, y), b in zip(loader, cycle(other))", "(x, y), b in zip(loader, cycle(other))"),
    ],
)
def test_loaders(before: str, after: str) -> None:
    if before == after:  # nothing of the other loader is used
        check_noop("cycle", TRAIN.format(before))
    else:
        check_rewritten("cycle", TRAIN.format(before), TRAIN.format(after))


def test_other_iterables() -> None:
    check_noop("cycle", TRAIN.format("(x, y), name in zip(loader, cycle(names))"))
