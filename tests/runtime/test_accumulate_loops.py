"""Windows in loops: skipped micro-batches, batches that no loader made, two blocks in one loop."""

from __future__ import annotations

import torch
from torch import nn

from tests.pool import Pool
from tests.runtime import gradient_cases as cases
from tests.runtime.test_accumulate import loader


def skips(skip: tuple[int, ...], n: int, batch: int, k: int) -> tuple[list[tuple[bool, bool]], list[list[int]]]:
    """Windows of a loop that leaves some micro-batches out: flags of each block, and the batches of each step."""
    from distify import runtime

    runtime.init(backend="ddp", accumulate=k)
    model = nn.Linear(6, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    runtime.prepare(model, optimizer)
    flags, steps, held = [], [], []
    worst = 0.0
    for epoch in range(2):
        for i, (x, _) in enumerate(runtime.shard(loader(n, batch, torch.float64))):
            with runtime.accumulate() as window:
                flags.append((window.starts, window.ends))
                if window.starts:
                    optimizer.zero_grad()
                    held, sums = [], torch.zeros(6, dtype=torch.float64)
                loss = runtime.mean(model(x).mean())
                if epoch == 0 and i in skip:
                    continue
                runtime.backward(loss)
                held.append(i)
                sums = sums + runtime.mean(x.mean(0).detach())
                if window.ends:
                    steps.append(held)
                    assert model.weight.grad is not None
                    worst = max(worst, (model.weight.grad[0] - sums / len(held)).abs().max().item())
                    runtime.step(optimizer)
    assert worst < 1e-12
    return flags, steps


def test_a_skipped_micro_batch_loses_nothing(pool2: Pool) -> None:
    """Batches of equal size: the gradient is the mean over those that the window held."""
    flags, steps = pool2.run(skips, (), 24, 4, 3)[0]
    assert steps == [[0, 1, 2], [3, 4, 5]] * 2
    assert flags[:3] == [(True, False), (False, False), (False, True)]
    # The one that should end a window: the next one does.
    assert pool2.run(skips, (2,), 24, 4, 3)[0][1] == [[0, 1, 3], [4, 5], [0, 1, 2], [3, 4, 5]]
    # One in the middle: the window goes on until it holds three.
    assert pool2.run(skips, (1,), 24, 4, 3)[0][1] == [[0, 2, 3], [4, 5], [0, 1, 2], [3, 4, 5]]
    # The last of the epoch: the first of the next ends the window.
    assert pool2.run(skips, (5,), 24, 4, 3)[0][1] == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 5]]
    # The first: the window has not started.
    flags, steps = pool2.run(skips, (0,), 24, 4, 3)[0]
    assert steps == [[1, 2, 3], [4, 5], [0, 1, 2], [3, 4, 5]]
    assert flags[:2] == [(True, False), (True, False)]


def split_batches() -> list[tuple[bool, bool]]:
    from distify import runtime

    runtime.init(backend="ddp", accumulate=3)
    model = nn.Linear(6, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    runtime.prepare(model, optimizer)
    x, _ = cases.data(35, torch.float64)
    flags, before = [], model.weight.detach().clone()
    for i in range(5):
        with runtime.accumulate(last=i == 4) as window:
            flags.append((window.starts, window.ends))
            if window.starts:
                optimizer.zero_grad()
            rows = runtime.split(x[7 * i : 7 * i + 7])
            runtime.backward(runtime.mean(model(rows).mean()))
            if window.ends:
                runtime.step(optimizer)
    moved = before - model.weight.detach()
    assert torch.allclose(moved[0], x[:21].mean(0) + x[21:].mean(0), atol=1e-12)
    return flags


def test_batches_that_no_loader_made_end_with_last(pool2: Pool) -> None:
    flags = [(True, False), (False, False), (False, True), (True, False), (False, True)]
    assert pool2.run(split_batches) == [flags, flags]


def two_blocks() -> list[int]:
    """Two optimizers with a block each per batch: two windows, not one that counts double."""
    from distify import runtime

    runtime.init(backend="ddp", accumulate=2)
    models = [nn.Linear(6, 1).double() for _ in range(2)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=1.0) for m in models]
    runtime.prepare(*models, *optimizers)
    steps = [0, 0]
    for x, _ in runtime.shard(loader(16, 4, torch.float64)):
        with runtime.accumulate() as first:
            runtime.backward(runtime.mean(models[0](x).mean()))
            if first.ends:
                runtime.step(optimizers[0])
                steps[0] += 1
        with runtime.accumulate() as second:
            runtime.backward(runtime.mean(models[1](x).mean()))
            if second.ends:
                runtime.step(optimizers[1])
                steps[1] += 1
    return steps


def test_each_block_has_its_own_window(pool2: Pool) -> None:
    assert pool2.run(two_blocks) == [[2, 2], [2, 2]]


def several_models() -> str:
    """Two models in turn on each batch: the message of the error, empty if there is none."""
    from distify import runtime
    from distify.runtime.state import DistifyError

    runtime.init(accumulate=2)
    models = [nn.Linear(6, 1), nn.Linear(6, 1)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
    runtime.prepare(*models, *optimizers)
    batches = runtime.shard(loader(8, 2, torch.float32))
    try:
        for x, _ in batches:
            for model, optimizer in zip(models, optimizers, strict=True):
                with runtime.accumulate() as window:
                    runtime.backward(runtime.mean(model(x).pow(2).mean()))
                    if window.ends:
                        runtime.step(optimizer)
    except DistifyError as error:
        return str(error)
    return ""


def test_two_turns_on_one_batch_are_refused(pool2: Pool) -> None:
    assert all("entered twice for one batch" in message for message in pool2.run(several_models))
