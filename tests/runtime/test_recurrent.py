"""Recurrent layers under FSDP: their gathered weights stay where they are."""

from __future__ import annotations

import torch
from torch import nn

from distify import runtime
from tests.pool import Pool


def flattened() -> tuple[list[int], list[int]]:
    """How often a prepared and an unprepared layer were flattened, on a device where flattening does something."""
    runtime.init(backend="fsdp")
    calls: list[int] = []

    def watched(module: nn.RNNBase) -> None:
        calls.append(id(module))

    from distify.runtime.backends import recurrent

    original, recurrent._flatten = recurrent._flatten, watched
    try:
        model, other = nn.LSTM(3, 4), nn.LSTM(3, 4)
        calls.clear()
        runtime.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
        x = torch.randn(2, 5, 3)
        model(x)
        other._init_flat_weights()
        return [c for c in calls if c == id(model)], [c for c in calls if c == id(other)]
    finally:
        recurrent._flatten = original


def test_only_unprepared_layers_are_flattened(pool2: Pool) -> None:
    for prepared, other in pool2.run(flattened):
        assert prepared == []
        assert len(other) == 1
