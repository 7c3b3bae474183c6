"""A step of DeepSpeed's ZeRO: how often ranks exchange something in it, and what is rounded."""

from __future__ import annotations

import copy
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from distify.runtime.backends.deepspeed_load import config
from distify.runtime.backends.zero_order import Arrivals
from tests.pool import Pool


def start(stage: int, **options: Any) -> Any:
    from distify import runtime

    runtime.init(backend="deepspeed", zero_stage=stage, **options)
    return runtime


def added(stage: int) -> float:
    """bf16 holds both gradients of a weight, but not their sum."""
    runtime = start(stage, precision="bf16")
    net = nn.Linear(64, 1, bias=False)
    before = net.weight.detach().clone()
    optimizer = torch.optim.SGD(net.parameters(), 1.0)
    runtime.prepare(net, optimizer)
    for value in (1.0, 2.0**-10):
        x = runtime.split(torch.full((4, 64), value))
        with runtime.autocast():
            loss = runtime.mean(net(x).mean())
        runtime.backward(loss)
    runtime.step(optimizer)
    return (before - runtime.state_dict(net)["weight"] - 1.0 - 2.0**-10).abs().max().item()


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_gradients_of_several_backwards_are_added_in_fp32(stage: int, pool2: Pool) -> None:
    assert max(pool2.run(added, stage)) < 2e-7


def exchanged(stage: int, skipped: bool) -> Any:
    """Collectives of a step; whether this rank waits to hear what was used; and how far the weights are off."""
    runtime = start(stage)
    torch.manual_seed(0)
    net = nn.ModuleList(nn.Linear(6, 6) for _ in range(6))
    original = copy.deepcopy(net)
    own, theirs = (torch.optim.SGD(m.parameters(), 0.1) for m in (net, original))
    runtime.prepare(net, own)
    waits: list[bool] = []
    issued = dist.all_reduce

    def noted(tensor: Tensor, *args: Any, **options: Any) -> Any:
        waits.append(not options.get("async_op"))
        return issued(tensor, *args, **options)

    x = torch.randn(4, 6)
    layers = range(5 if skipped else 6)
    calls: Counter[str] = Counter()
    for _ in range(3):
        for m, optimizer in ((net, own), (original, theirs)):
            optimizer.zero_grad()
            out = runtime.split(x) if m is net else x
            for layer in layers:
                out = torch.tanh(m[layer](out))
            loss = out.pow(2).mean()
            if m is net:
                runtime.backward(runtime.mean(loss))
            else:
                loss.backward()
        waits.clear()
        dist.all_reduce = noted  # type: ignore[assignment]
        try:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                runtime.step(own)
        finally:
            dist.all_reduce = issued
        theirs.step()
        calls = Counter(event.name for event in profile.events() if event.name.startswith("c10d::"))
    trained = runtime.state_dict(net)
    return dict(calls), waits, max((trained[n] - v).abs().max().item() for n, v in original.state_dict().items())


@pytest.mark.parametrize("stage", [2, 3])
def test_a_step_has_two_collectives_and_waits_for_nobody_if_all_is_used(stage: int, pool2: Pool) -> None:
    """Which parameters were used, and their new values: not one for each of them."""
    for calls, waits, gap in pool2.run(exchanged, stage, False):
        assert gap < 1e-6
        assert calls == {"c10d::allreduce_": 1, "c10d::_allgather_base_": 1}
        assert waits == [False]
    for _, waits, gap in pool2.run(exchanged, stage, True):
        assert gap < 1e-6
        assert waits == [True]


def test_gradients_are_taken_in_the_order_of_the_model_not_of_the_optimizer() -> None:
    weights, biases = [torch.ones(2, requires_grad=True) for _ in range(3)], [torch.ones(1, requires_grad=True)]
    taken: list[Tensor] = []
    zero = SimpleNamespace(bit16_groups=[weights, biases], process_gradients=lambda p, group: taken.append(p))
    names = [weights[0], biases[0], weights[1], weights[2]]
    arrivals = Arrivals(zero, names)
    for k, p in enumerate(reversed(names)):
        arrivals.arrive(p, 0)
        assert len(taken) == k + 1, "nothing is held back"
    assert all(a is b for a, b in zip(taken, reversed(names)))


def test_a_bucket_holds_the_largest_parameter() -> None:
    for sizes in ([3], [1_000], [90_000_001, 5], [30_000_000] * 9):
        bucket = config(2, torch.bfloat16, sizes)["zero_optimization"]["reduce_bucket_size"]
        assert bucket >= max(sizes)
        assert bucket % 2 == 0
        assert bucket <= max(40_000_000, max(sizes) + 1)


def linears() -> Any:
    """What F.linear of ZeRO 3 returns and keeps under autocast, beside torch's."""
    plain = F.linear
    runtime = start(3, precision="bf16")
    net = nn.Linear(8, 8)
    runtime.prepare(net, torch.optim.SGD(net.parameters(), 0.1))
    torch.manual_seed(1)
    x, weight, bias = torch.randn(2, 3, 8), torch.randn(5, 8).bfloat16(), torch.randn(5).bfloat16()
    found = []
    for function in (plain, F.linear):
        leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
        kept: list[torch.dtype] = []

        def keep(t: Tensor, kept: list[torch.dtype] = kept) -> Tensor:
            kept.append(t.dtype)
            return t

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t), torch.autocast("cpu", torch.bfloat16):
            out = function(*leaves)
        out.float().pow(2).sum().backward()
        found.append((out.detach(), [t.grad for t in leaves], torch.float32 in kept))
    (a, grads, _), (b, others, wide) = found
    return (
        F.linear is not plain,
        torch.equal(a, b),
        all(torch.allclose(g, h, rtol=2e-2, atol=1e-3) for g, h in zip(grads, others)),  # type: ignore[arg-type]
        wide,
    )


def test_linear_of_stage_3_keeps_what_was_converted(pool2: Pool) -> None:
    for replaced, same, close, wide in pool2.run(linears):
        assert (replaced, same, close, wide) == (True, True, True, False)
