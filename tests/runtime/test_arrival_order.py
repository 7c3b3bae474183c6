"""Gradients that are complete in another order on one rank than on another: buckets must not mix them up.

A recurrent layer over packed sequences hands its gradients over in another order where all sequences have one step.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from distify import runtime
from tests.pool import Pool

LENGTHS = [1, 1, 1, 1, 4, 4, 2]


def last_state(net: nn.Module, x: Tensor, lengths: Tensor) -> Tensor:
    _, (h, _) = net(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    return h[-1]


def train(backend: str, stage: int | None) -> float:
    """The largest difference of a weight from the original's, after three steps."""
    runtime.init(backend=backend, zero_stage=stage)
    torch.manual_seed(0)
    net = nn.LSTM(3, 4, batch_first=True)
    original = copy.deepcopy(net)
    x, lengths = torch.randn(7, 5, 3), torch.tensor(LENGTHS)
    optimizer = torch.optim.SGD(original.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        last_state(original, x, lengths).pow(2).mean().backward()
        optimizer.step()

    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    runtime.prepare(net, optimizer)
    for _ in range(3):
        x_part, lengths_part = runtime.split((x, lengths))
        optimizer.zero_grad()
        loss = runtime.mean(last_state(net, x_part, lengths_part).pow(2).mean())
        runtime.backward(loss)
        runtime.step(optimizer)
    trained = runtime.state_dict(net)
    return max((trained[name] - value).abs().max().item() for name, value in original.state_dict().items())


@pytest.mark.parametrize(
    ("backend", "stage"), [("ddp", None), ("fsdp", None), ("deepspeed", 1), ("deepspeed", 2), ("deepspeed", 3)]
)
def test_packed_sequences_of_one_step(pool2: Pool, backend: str, stage: int | None) -> None:
    assert max(pool2.run(train, backend, stage)) < 1e-6
