"""`replicated`: what a forward draws for the whole batch is the same on all ranks, and again when it is recomputed."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from distify import runtime
from tests.pool import Pool


class Net(nn.Module):
    """Draws two numbers for the batch, one for itself, and keeps what it got."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.shared: list[float] = []
        self.own: list[float] = []

    def body(self, x: torch.Tensor) -> torch.Tensor:
        self.own.append(torch.rand(1).item())
        for _ in range(2):
            number = runtime.replicated(torch.empty(1).uniform_)
            self.shared.append(number.item())
            x = x * self.weight * number
        return x

    def forward(self, x: torch.Tensor, again: bool) -> torch.Tensor:
        out = checkpoint(self.body, x, use_reentrant=False) if again else self.body(x)
        assert isinstance(out, torch.Tensor)
        return out


def numbers(again: bool) -> tuple[list[float], list[float], float]:
    runtime.init()
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    runtime.prepare(model, optimizer)
    x = runtime.split(torch.ones(6, 1))
    runtime.backward(runtime.mean(model(x, again).mean(), of=x))
    return model.shared, model.own, torch.rand(1).item()


def test_the_original_numbers_on_all_ranks(pool2: Pool) -> None:
    torch.manual_seed(0)
    expected = [torch.rand(1).item() for _ in range(2)]
    torch.manual_seed(0)
    torch.rand(2)
    after = torch.rand(1).item()
    first, second = pool2.run(numbers, False)
    assert first[0] == second[0] == expected
    assert first[1] != second[1]
    assert first[2] == second[2] == after


def test_a_recomputed_forward_gets_them_again(pool2: Pool) -> None:
    plain = pool2.run(numbers, False)
    for (shared, own, after), (once, mine, then) in zip(pool2.run(numbers, True), plain):
        assert shared == [*once, *once]
        assert own == [*mine, *mine]
        assert after == then


def test_outside_of_a_forward_it_is_a_plain_call() -> None:
    runtime.init()
    torch.manual_seed(3)
    drawn = runtime.replicated(torch.rand, 2)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(2))
    runtime.shutdown()
