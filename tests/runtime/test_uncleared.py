"""Scripts that never clear gradients: exact where `.grad` is what the optimizer reads, refused by DeepSpeed."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from distify import runtime
from tests.pool import Pool, RankError


def train(backend: str, stage: int | None, clear: bool) -> float:
    """Four steps; the largest difference of a weight from the original's."""
    runtime.init(backend=backend, zero_stage=stage)
    torch.manual_seed(0)
    net = nn.Linear(3, 2)
    original = copy.deepcopy(net)
    batches = torch.randn(4, 7, 3)
    optimizer = torch.optim.SGD(original.parameters(), lr=0.1)
    for x in batches:
        original(x).pow(2).mean().backward()
        optimizer.step()
        if clear:
            optimizer.zero_grad()

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    runtime.prepare(net, optimizer)
    for x in batches:
        part = runtime.split(x)
        runtime.backward(runtime.mean(net(part).pow(2).mean()))
        runtime.step(optimizer)
        if clear:
            net.zero_grad()
    trained = runtime.state_dict(net)
    return max((trained[name] - value).abs().max().item() for name, value in original.state_dict().items())


@pytest.mark.parametrize("backend", ["ddp", "fsdp"])
def test_gradients_that_stay_are_added_to(pool2: Pool, backend: str) -> None:
    assert max(pool2.run(train, backend, None, False)) < 1e-6


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_deepspeed_refuses(pool2: Pool, stage: int) -> None:
    with pytest.raises(RankError, match=r"were not cleared.*zero_grad"):
        pool2.run(train, "deepspeed", stage, False)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_deepspeed_with_a_module_that_clears(pool2: Pool, stage: int) -> None:
    assert max(pool2.run(train, "deepspeed", stage, True)) < 1e-6
