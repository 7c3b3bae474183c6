"""Gradients that a script adds up by itself: nothing is sent between two steps, and every window is exact."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from distify import runtime
from tests.pool import Pool

BACKENDS = [("ddp", None), ("fsdp", None), ("deepspeed", 1), ("deepspeed", 2), ("deepspeed", 3)]


class Two(nn.Module):
    """A model whose micro-batches use either of its branches."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(3, 4)
        self.branches = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 2)])

    def forward(self, x: Tensor, which: int) -> Tensor:
        found: Tensor = self.branches[which](self.stem(x).tanh())
        return found


Backward = Callable[..., None]


def loop(model: Any, optimizer: Any, cut: Any, mean: Any, backward: Backward, step: Any, form: str) -> list[float]:
    """Windows of three micro-batches in one of several forms; the norms that clipping found."""
    torch.manual_seed(1)
    norms: list[float] = []

    def finish() -> None:
        clip = runtime.clip_grad_norm_ if step is runtime.step else nn.utils.clip_grad_norm_
        norms.append(float(clip(model.parameters(), 0.7)))
        step(optimizer)

    for epoch in range(2):
        if form != "left":
            optimizer.zero_grad()
        for i in range(7):
            x = cut(torch.randn(5, 3))
            ends = (i + 1) % 3 == 0 or (form == "last" and i == 6)
            if form == "stops" and epoch == 0 and i == 4:
                break
            which = 0 if form != "branches" else int(i % 3 == 2)
            backward(mean(model(x, which).pow(2).mean()) / 3, sync=ends)
            if ends:
                finish()
                optimizer.zero_grad()
        if form == "after":  # what is left makes a step of its own
            finish()
            optimizer.zero_grad()
    return norms


def plain(loss: Tensor, sync: bool) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def differs(backend: str, stage: int | None, form: str) -> float:
    """Train as the original and through the runtime; the largest difference of norms and weights."""
    runtime.init(backend=backend, zero_stage=stage)
    torch.manual_seed(0)
    net = Two()
    original = copy.deepcopy(net)
    optimizer = torch.optim.SGD(original.parameters(), lr=0.5, momentum=0.9)
    expected = loop(original, optimizer, lambda x: x, lambda x: x, plain, lambda optimizer: optimizer.step(), form)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    runtime.prepare(net, optimizer)
    norms = loop(net, optimizer, runtime.split, runtime.mean, runtime.backward, runtime.step, form)
    assert len(norms) == len(expected)
    trained = runtime.state_dict(net)
    found = [abs(a - b) for a, b in zip(norms, expected, strict=True)]
    found += [(trained[name] - value).abs().max().item() for name, value in original.state_dict().items()]
    return max(found)


@pytest.mark.parametrize("form", ["last", "left", "after", "stops", "branches"])
@pytest.mark.parametrize(("backend", "stage"), BACKENDS)
def test_every_window_is_exact(pool2: Pool, backend: str, stage: int | None, form: str) -> None:
    assert max(pool2.run(differs, backend, stage, form)) < 1e-6


@pytest.mark.parametrize("backend", ["ddp", "fsdp"])
@pytest.mark.parametrize("form", ["last", "after", "branches"])
def test_on_three(pool3: Pool, backend: str, form: str) -> None:
    assert max(pool3.run(differs, backend, None, form)) < 1e-6


def sent(backend: str, sync: bool) -> list[int]:
    """Numbers that each of six backwards, of which every third needs its gradients, reduces over ranks."""
    runtime.init(backend=backend)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(40, 50), nn.Tanh(), nn.Linear(50, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    runtime.prepare(net, optimizer)
    counts: list[int] = []

    def counting(original: Any, position: int) -> Any:
        def reduce(*args: Any, **kwargs: Any) -> Any:
            size = args[position].numel() if len(args) > position else kwargs["input"].numel()
            counts[-1] += size if size > 200 else 0  # gradients, not flags
            return original(*args, **kwargs)

        return reduce

    names = {"all_reduce": 0, "reduce_scatter_tensor": 1, "reduce_scatter_single": 1}  # the last one since torch 2.13
    patches = [
        mock.patch.object(dist, name, counting(getattr(dist, name), at))
        for name, at in names.items()
        if hasattr(dist, name)
    ]
    for patch in patches:
        patch.start()
    try:
        for i in range(6):
            counts.append(0)
            loss = runtime.mean(net(runtime.split(torch.randn(4, 40))).pow(2).mean()) / 3
            runtime.backward(loss, sync=not sync or i % 3 == 2)
            if i % 3 == 2:
                runtime.step(optimizer)
                optimizer.zero_grad()
    finally:
        for patch in patches:
            patch.stop()
    return counts


@pytest.mark.parametrize("backend", ["ddp", "fsdp"])
def test_nothing_is_sent_before_it_is_needed(pool2: Pool, backend: str) -> None:
    always, counts = pool2.run(sent, backend, False)[0], pool2.run(sent, backend, True)[0]
    assert min(always) > 2000
    assert counts == [0, 0, always[2], 0, 0, always[5]]


def frozen_before_the_end() -> float:
    """A part that was trained in the window is frozen when the window ends, and its optimizer steps then."""
    runtime.init(backend="ddp")
    torch.manual_seed(0)
    one, two = nn.Linear(3, 3), nn.Linear(3, 2)
    batches = torch.randn(2, 5, 3)
    first, second = (nn.Sequential(one, two)(x).pow(2).mean() for x in batches)
    expected = torch.autograd.grad(first + second, two.weight, retain_graph=True)[0]
    wanted = torch.autograd.grad(first, one.weight)[0]
    optimizer = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=0.0)
    runtime.prepare(one, two, optimizer)
    for k, x in enumerate(batches):
        one.requires_grad_(k == 0)
        part = runtime.split(x)
        runtime.backward(runtime.mean(two(one(part)).pow(2).mean()), sync=k == 1)
    runtime.step(optimizer)
    assert one.weight.grad is not None
    assert two.weight.grad is not None
    return max((one.weight.grad - wanted).abs().max().item(), (two.weight.grad - expected).abs().max().item())


def test_frozen_before_the_end(pool2: Pool) -> None:
    assert max(pool2.run(frozen_before_the_end)) < 1e-6
