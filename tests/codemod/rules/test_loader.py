"""Loaders that feed a model are sharded, wherever they are built; others stay whole."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import check_noop, check_rewritten

LOOP = """
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in {loader}:
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""

REWRITES = {
    "assigned": ("loader = @DataLoader(data, batch_size=4)@", "loader"),
    "positional": ("loader = @DataLoader(data, 4, True)@", "loader"),
    "keyword arguments": ("options = dict(batch_size=4)\nloader = @DataLoader(data, **options)@", "loader"),
    "subclass": ("class Loader(DataLoader):\n    pass\n\n\nloader = @Loader(data, batch_size=4)@", "loader"),
    "in a dictionary": ('loaders = {"train": @DataLoader(data, batch_size=4)@}', 'loaders["train"]'),
    "returned": ("def build():\n    return @DataLoader(data, batch_size=4)@\n\n\nloader = build()", "loader"),
    "several lines": ("loader = @DataLoader(\n    data,\n    batch_size=4,  # rows\n)@", "loader"),
    "attribute": ("class Holder:\n    pass\n\n\nbox = Holder()\nbox.loader = @DataLoader(data)@", "box.loader"),
    "through enumerate": ("loader = @DataLoader(data, batch_size=4)@", "[b for _, b in enumerate(loader)]"),
}


@pytest.mark.parametrize("case", REWRITES)
def test_rewritten(case: str) -> None:
    build, name = REWRITES[case]
    before, call, after = build.split("@")
    loop = LOOP.format(loader=name)
    check_rewritten("loader", before + call + after + loop, f"{before}runtime.shard({call}){after}{loop}")


def test_inline() -> None:
    check_rewritten(
        "loader",
        LOOP.format(loader="DataLoader(data, batch_size=4)"),
        LOOP.format(loader="runtime.shard(DataLoader(data, batch_size=4))"),
    )


NOOPS = {
    "sharded": "loader = runtime.shard(DataLoader(data, batch_size=4))" + LOOP.format(loader="loader"),
    "statistics": """
        mean = 0.0
        for x, y in DataLoader(data, batch_size=5):
            mean += x.mean().item()
        loader = runtime.shard(DataLoader(data, batch_size=4))
        """
    + LOOP.replace("\n", "\n        ").format(loader="loader"),
    "vocabulary": """
        seen = set()
        for x, y in DataLoader(data, batch_size=5):
            seen.update(y.tolist())
        loader = runtime.shard(DataLoader(data, batch_size=4))
        """
    + LOOP.replace("\n", "\n        ").format(loader="loader"),
    "another class of that name": """
        class Batches:
            def DataLoader(self, rows):
                return rows

        rows = Batches().DataLoader([1])
        loader = runtime.shard(DataLoader(data, batch_size=4))
        """
    + LOOP.replace("\n", "\n        ").format(loader="loader"),
    "shown only": """
        print(len(DataLoader(data, batch_size=4)))
        loader = runtime.shard(DataLoader(data, batch_size=4))
        """
    + LOOP.replace("\n", "\n        ").format(loader="loader"),
}


@pytest.mark.parametrize("case", NOOPS)
def test_noop(case: str) -> None:
    check_noop("loader", NOOPS[case])
