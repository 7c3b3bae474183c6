"""Activation checkpointing: the same numbers as without, from blocks that run twice."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from distify import runtime
from tests.pool import Pool


class Block(nn.Module):
    """What a recomputation can get wrong: dropout, running statistics, a power iteration, a layer dropped at random."""

    def __init__(self, width: int, drop: float) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.linear = nn.utils.parametrizations.spectral_norm(nn.Linear(width, width))
        self.more = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(drop), nn.Linear(width, width))
        self.gain = nn.Parameter(torch.ones(width))
        self.drop, self.calls = drop, 0

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        self.calls += 1
        x = self.linear(self.norm(x)) * self.gain
        if self.drop and random.random() < 0.4:
            scale = 0.1
        return x + scale * self.more(x)


class Net(nn.Module):
    def __init__(self, drop: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(8, drop) for _ in range(3)])
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, scale=0.5)
        return self.head(x)


def train(drop: float, **options: Any) -> tuple[list[float], dict[str, Tensor], list[int]]:
    """Losses, the final state dict, and how often each block was run."""
    random.seed(3)
    torch.manual_seed(3)
    runtime.init(**options)
    model = Net(drop)
    before = list(model.state_dict())
    kinds = [type(module) for module in model.modules()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    runtime.prepare(model, optimizer)
    if options.get("backend") != "fsdp":  # which puts classes of its own in their place
        assert kinds == [type(module) for module in model.modules()]
    losses = []
    for _ in range(2):
        x = runtime.split(torch.randn(6, 8))
        optimizer.zero_grad()
        loss = runtime.mean(model(x).pow(2).mean())
        runtime.backward(loss)
        runtime.clip_grad_norm_(model.parameters(), 1.0)
        runtime.step(optimizer)
        losses.append(loss.item())
    found = {name: tensor.clone() for name, tensor in runtime.state_dict(model).items()}
    assert list(found) == before
    return losses, found, [block.calls for block in model.blocks]  # type: ignore[misc]


def compare(drop: float, **options: Any) -> None:
    plain = train(drop, **options)
    runtime.shutdown()
    recomputed = train(drop, checkpoint_activations=True, **options)
    assert plain[2] == [2, 2, 2]
    assert recomputed[2] == [4, 4, 4]
    assert recomputed[0] == plain[0]
    for name, tensor in plain[1].items():
        assert torch.equal(tensor, recomputed[1][name]), name


@pytest.mark.parametrize(
    "options",
    [
        {"backend": "ddp"},
        {"backend": "fsdp"},
        {"backend": "deepspeed", "zero_stage": 2},
        {"backend": "deepspeed", "zero_stage": 3},
    ],
    ids=lambda options: f"{options['backend']}{options.get('zero_stage', '')}",
)
def test_the_same_numbers(pool2: Pool, options: dict[str, Any]) -> None:
    pool2.run(compare, 0.3, **options)


def test_one_process(alone: None) -> None:
    compare(0.3)


def test_without_dropout(pool2: Pool) -> None:
    pool2.run(compare, 0.0, backend="ddp")


def test_copies_are_free_of_it(alone: None, tmp_path: Path) -> None:
    runtime.init(checkpoint_activations=True)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2)))
    runtime.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin[0][0].weight.zero_()
    x = torch.randn(4, 8)
    assert not torch.equal(twin(x), model(x))  # it runs its own blocks, in a backward too
    twin(x).sum().backward()
    assert model[0][0].weight.grad is None
    runtime.save(model, tmp_path / "model.pt")
    assert b"distify" not in (tmp_path / "model.pt").read_bytes()
    assert "forward" not in vars(runtime.clone(model)[0])  # type: ignore[index]
    assert "forward" in vars(model[0])


def test_models_without_blocks(alone: None) -> None:
    runtime.init(checkpoint_activations=True)
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    with pytest.warns(UserWarning, match="Sequential has no repeated blocks"):
        runtime.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
