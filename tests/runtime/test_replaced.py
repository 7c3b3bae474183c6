"""Parameters that change places after `prepare`, that two models share, and that are gathered in an odd mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.pool import Pool, RankError
from tests.runtime import test_deepspeed, test_fsdp
from tests.runtime.programs import Block, Original, batches, gap

TOLERANCE = 2e-5


class Net(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.into = nn.Linear(6, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.head = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.into(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def start(way: str) -> Any:
    layouts = {"blocks": test_fsdp.BLOCKS, "together": test_fsdp.TOGETHER}
    return test_fsdp.start(layouts[way]) if way in layouts else test_deepspeed.start(int(way[-1]))


def changed(way: str, what: str) -> None:
    r = start(way)
    torch.manual_seed(0)
    m = Net()
    r.prepare(m, torch.optim.SGD(m.parameters(), 0.1))
    x, _ = r.split(batches(1)[0])
    m(x)
    other = nn.Parameter(torch.zeros(12, 6))
    if what == "functional":
        torch.func.functional_call(m, {"blocks.1.up.weight": other}, (x,))
    if what == "opened":
        with r.whole(m):
            m.blocks[1](x)
    if what == "in the open":
        with r.whole(m):
            m.blocks[1].up.weight = other
    else:
        m.blocks[1].up.weight = other
    (m.blocks[1] if what == "block" else m)(x)


@pytest.mark.parametrize("what", ["model", "block", "in the open", "functional", "opened"])
@pytest.mark.parametrize("way", ["blocks", "together", "zero3"])
def test_another_parameter_in_the_place_of_one_is_refused(way: str, what: str, pool2: Pool) -> None:
    reason = "called in a runtime.whole" if what == "opened" else "weight' was replaced or removed after"
    with pytest.raises(RankError, match=reason) as error:
        pool2.run(changed, way, what)
    assert error.value.types == ["DistifyError"] * 2


def shared(r: Any) -> Any:
    """A block of two models."""
    torch.manual_seed(0)
    a, b = Net(), Net()
    b.blocks[1] = a.blocks[2]
    optimizer = torch.optim.SGD(dict.fromkeys([*a.parameters(), *b.parameters()]), 0.05)
    r.prepare(a, b, optimizer)
    for batch in batches(3):
        x, y = r.split(batch)
        optimizer.zero_grad()
        r.backward(r.mean(F.cross_entropy(a(x) + b(-x), y)))
        r.step(optimizer)
    return r.state_dict(a), r.state_dict(b)


def evaluated(r: Any) -> Any:
    """An evaluation in inference mode before and between steps; matrices that ZeRO 3 cuts."""
    torch.manual_seed(0)
    m = Net(330)
    optimizer = torch.optim.SGD(m.parameters(), 0.05)
    r.prepare(m, optimizer)
    shown = []
    for batch in batches(3):
        x, y = r.split(batch)
        with torch.inference_mode():
            shown.append(r.mean(F.cross_entropy(m(x), y), of=x).item())
            shown.append(r.mean(m.blocks[1](m.into(x)).pow(2).mean(), of=x).item())
        optimizer.zero_grad()
        r.backward(r.mean(F.cross_entropy(m(x), y)))
        r.step(optimizer)
    return shown, r.state_dict(m)


def compared(way: str) -> list[dict[str, Any]]:
    found = []
    for program in (shared, evaluated):
        expected = program(Original)
        runtime = start(way)
        found.append(gap(program(runtime), expected))
        runtime.shutdown()
    return found


@pytest.mark.parametrize("way", ["blocks", "together", "zero2", "zero3"])
def test_training_equals_the_original(way: str, pool2: Pool) -> None:
    for found in pool2.run(compared, way):
        assert [len(places) for places in found] == [1, 1], found
        assert max(places[""] for places in found) <= TOLERANCE


def empty() -> None:
    r = test_deepspeed.start(3)
    m = nn.ParameterList([nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(0))])
    r.prepare(m, torch.optim.SGD(m.parameters(), 0.1))


def test_a_parameter_without_elements_is_refused_by_deepspeed(pool2: Pool) -> None:
    with pytest.raises(RankError, match="has no elements"):
        pool2.run(empty)
