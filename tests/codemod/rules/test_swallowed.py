"""Exceptions that are swallowed around a training step are told of; what all processes meet alike is not."""

from __future__ import annotations

import pytest

from .checks import check_noop

BUILD = """
import sys
loader = DataLoader(data, batch_size=4)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)

def step(x, y):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()

"""
EACH = """
for x, y in loader:
    try:
        step(x, y)
    except {}
"""

SWALLOWED = {
    "skipped": "RuntimeError:\n        continue",
    "bare": "\n        pass",
    "out of memory": "torch.cuda.OutOfMemoryError:\n        torch.cuda.empty_cache()",
    "some of them": "RuntimeError as error:\n        if 'memory' in str(error):\n            continue\n        else:\n            raise",
    "one of several": "(KeyboardInterrupt, ValueError):\n        print('stopped')",
}
LET_BE = {
    "interrupted": "KeyboardInterrupt:\n        break",
    "at an end": "StopIteration:\n        break",
    "told and raised": "RuntimeError:\n        print(x.shape)\n        raise",
    "leaves": "RuntimeError:\n        print(x.shape)\n        sys.exit(1)",
}


@pytest.mark.parametrize("case", SWALLOWED)
def test_swallowed(case: str) -> None:
    check_noop("swallowed", BUILD + EACH.format(SWALLOWED[case]).replace("except \n", "except:\n"), ["DST603"])


@pytest.mark.parametrize("case", LET_BE)
def test_let_be(case: str) -> None:
    check_noop("swallowed", BUILD + EACH.format(LET_BE[case]))


def test_around_all_of_the_training() -> None:
    """The process would end without an error, and the others wait for it."""
    text = "try:\n    for x, y in loader:\n        step(x, y)\nexcept Exception as error:\n    print(error)\n"
    check_noop("swallowed", BUILD + text, ["DST603"])


def test_each_handler() -> None:
    handlers = "ValueError:\n        pass\n    except KeyboardInterrupt:\n        break\n    except RuntimeError:\n        pass"
    check_noop("swallowed", BUILD + EACH.format(handlers), ["DST603", "DST603"])


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import apex\nexcept Exception:\n    apex = None\n",
        "try:\n    state = torch.load('last.pt')\nexcept OSError:\n    state = None\n",
        "source = iter(loader)\ntry:\n    x, y = next(source)\nexcept Exception:\n    source = iter(loader)\n",
    ],
)
def test_what_trains_nothing(text: str) -> None:
    check_noop("swallowed", BUILD + text + "for x, y in loader:\n    step(x, y)\n")
