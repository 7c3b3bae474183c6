"""Gradients with a graph (`create_graph=True`), and all that can happen before the backward through them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.pool import Pool
from tests.runtime import test_deepspeed, test_fsdp
from tests.runtime.programs import Original, batches, gap

WIDTH = 330  # ZeRO 3 keeps smaller matrices whole
TOLERANCE = 2e-5


class Wide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(6, WIDTH), nn.Linear(WIDTH, 6)
        self.middle = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.tanh(self.middle(torch.tanh(self.up(x)))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Wide() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def slope(r: Any, part: Any, x: Tensor, **options: Any) -> Tensor:
    found = r.grad(r.sum(part(x).pow(2).sum()), x, create_graph=True, **options)[0]
    assert isinstance(found, Tensor)
    return found


def of_a_block(r: Any, m: Net, x: Tensor, y: Tensor) -> None:
    """The graph of one block lies below the forward of all."""
    r.backward(r.mean(F.cross_entropy(m(x + 0.1 * slope(r, m.blocks[1], x)), y)))


def twice(r: Any, m: Net, x: Tensor, y: Tensor) -> None:
    """Two such graphs, a backward each."""
    penalties = [r.mean(slope(r, m, z).pow(2).mean()) for z in (x, (-x.detach()).requires_grad_())]
    for penalty in penalties:
        r.backward(0.1 * penalty)


def retained(r: Any, m: Net, x: Tensor, y: Tensor) -> None:
    """One graph, two backwards, and a forward of the model and its backward in between."""
    penalty = r.mean(slope(r, m, x).pow(2).mean())
    r.backward(0.1 * penalty, retain_graph=True)
    r.backward(r.mean(F.cross_entropy(m(x.detach()), y)))
    r.backward(0.1 * penalty)


def third(r: Any, m: Net, x: Tensor, y: Tensor) -> None:
    """The gradient of a gradient, after another forward."""
    first = slope(r, m, x)
    out = m(x)
    (second,) = r.grad(r.sum(first.pow(2).sum()), x, create_graph=True)
    r.backward(r.mean(F.cross_entropy(out + 0.01 * second, y)))


def only_looked_at(r: Any, m: Net, x: Tensor, y: Tensor) -> None:
    slope(r, m, x)


STEPS = (of_a_block, twice, retained, third, only_looked_at)


def trained(r: Any) -> Any:
    shown = []
    for step in STEPS:
        torch.manual_seed(0)
        m, other = Net(), Net()
        a, b = torch.optim.SGD(m.parameters(), 0.02), torch.optim.SGD(other.parameters(), 0.02)
        r.prepare(m, a, other, b)
        for batch in batches(2):
            x, y = r.split(batch)
            z = (2 * x).requires_grad_()
            held = slope(r, other, z)  # used when the first model has been trained
            step(r, m, x.requires_grad_(), y)
            r.step(a)
            a.zero_grad()
            r.backward(0.1 * r.mean(held.pow(2).mean()))
            r.step(b)
            b.zero_grad()
        shown.append([r.state_dict(m), r.state_dict(other)])
    return shown


def compared(way: str) -> dict[str, Any]:
    expected = trained(Original)
    layouts = {"blocks": test_fsdp.BLOCKS, "given back": test_fsdp.GIVEN_BACK, "together": test_fsdp.TOGETHER}
    runtime = test_fsdp.start(layouts[way]) if way in layouts else test_deepspeed.start(int(way[-1]))
    found = gap(trained(runtime), expected)
    runtime.shutdown()
    return found


@pytest.mark.parametrize("way", ["blocks", "given back", "together", "zero2", "zero3"])
def test_training_equals_the_original(way: str, pool2: Pool) -> None:
    for found in pool2.run(compared, way):
        assert len(found) == 1, found
        assert found[""] <= TOLERANCE
