"""Windows of micro-batches train as the original does on one large batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from tests.pool import Pool
from tests.runtime import gradient_cases as cases
from tests.runtime.gradient_cases import Net, Plain

BACKENDS: dict[str, tuple[torch.dtype, float]] = {"ddp": (torch.float64, 1e-10)}
Loss = Callable[[Any, nn.Module, Tensor, Tensor], Tensor]


def mean(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return r.mean(F.cross_entropy(m(x), y))


def total(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return r.sum(F.cross_entropy(m(x), y, reduction="sum"))


def with_penalty(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return mean(r, m, x, y) + 0.1 * cases.penalty(r, m)


def mixed(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return total(r, m, x, y) + 3 * mean(r, m, x, y) + 0.1 * cases.penalty(r, m)


def ignored(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    t = torch.where(y == 1, -100, y)
    return r.mean(F.cross_entropy(m(x), t), by=(t != -100).sum())


def over_rows(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return r.averaged(r.sum(F.cross_entropy(m(x), y, reduction="sum")) / r.sum(len(x))) + 0.1 * cases.penalty(r, m)


def over_a_count(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    mask = (y != 1).to(x.dtype)
    count = r.sum(mask.sum())
    return r.averaged(r.sum((F.cross_entropy(m(x), y, reduction="none") * mask).sum()) / count, by=count)


LOSSES: dict[str, Loss] = {f.__name__: f for f in (mean, total, with_penalty, mixed, ignored, over_rows, over_a_count)}
# Backends whose reduction is part of the step can't put a window right afterwards: not for `ignored`.


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.pairs = list(zip(x, y, strict=True))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(self.pairs)


def loader(n: int, batch: int, dtype: torch.dtype, stream: bool = False) -> DataLoader[Any]:
    x, y = cases.data(n, dtype)
    return DataLoader(Stream(x, y) if stream else TensorDataset(x, y), batch_size=batch)


def original(loss: Loss, n: int, batch: int, dtype: torch.dtype, epochs: int = 2) -> dict[str, Tensor]:
    model = cases.build("", dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(epochs):
        for x, y in loader(n, batch, dtype):
            optimizer.zero_grad()
            loss(Plain, model, x, y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    return model.state_dict()


def windows(
    backend: str, name: str, n: int, batch: int, k: int, dtype: torch.dtype, stream: bool = False, epochs: int = 2
) -> tuple[float, int]:
    """Largest difference to the original with a K times larger batch, and the number of steps."""
    from distify import runtime
    from distify.runtime.state import state

    runtime.init(backend=backend, accumulate=k)
    assert state.backend is not None
    model = cases.build("", dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    runtime.prepare(model, optimizer)
    data = runtime.shard(loader(n, batch, dtype, stream))
    steps = 0
    for _ in range(epochs):
        for x, y in data:
            with runtime.accumulate() as window:
                if window.starts:
                    optimizer.zero_grad()
                runtime.backward(LOSSES[name](runtime, model, x, y))
                if window.ends:
                    runtime.clip_grad_norm_(model.parameters(), 1.0)
                    runtime.step(optimizer)
                    steps += 1
    expected = original(LOSSES[name], n, batch * k, dtype, epochs)
    found = state.backend.state_dict(model)
    return max((found[key].double() - v.double()).abs().max().item() for key, v in expected.items()), steps


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_equals_one_large_batch(backend: str, name: str, pool2: Pool, pool3: Pool) -> None:
    """29 rows in batches of 7 (the last of 1), windows of 3: the last window is short and its last batch too."""
    dtype, tolerance = BACKENDS[backend]
    for pool in (pool2, pool3):
        for gap, steps in pool.run(windows, backend, name, 29, 7, 3, dtype):
            assert gap < tolerance
            assert steps == 2 * 2


@pytest.mark.parametrize("name", ["mean", "total", "ignored"])
def test_a_stream_whose_length_is_unknown(name: str, pool2: Pool) -> None:
    for gap, steps in pool2.run(windows, "ddp", name, 29, 7, 3, torch.float64, True):
        assert gap < 1e-10
        assert steps == 4


@pytest.mark.parametrize("name", LOSSES)
def test_one_process(name: str) -> None:
    try:
        gap, steps = windows("ddp", name, 29, 7, 3, torch.float64)
    finally:
        from distify import runtime

        runtime.shutdown()
    assert gap < 1e-10
    assert steps == 4


def evaluated_between() -> tuple[float, int]:
    """Another loader runs inside the window's last block and between blocks."""
    from distify import runtime

    runtime.init(backend="ddp", accumulate=3)
    model = cases.build("", torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    runtime.prepare(model, optimizer)
    train, test = (runtime.shard(loader(n, b, torch.float64)) for n, b in ((29, 7), (11, 2)))
    steps = 0

    def evaluate() -> None:
        for x, y in test:
            runtime.mean(F.cross_entropy(model(x), y))

    for _ in range(2):
        for x, y in train:
            evaluate()
            with runtime.accumulate() as window:
                if window.starts:
                    optimizer.zero_grad()
                runtime.backward(mean(runtime, model, x, y))
                evaluate()
                if window.ends:
                    runtime.clip_grad_norm_(model.parameters(), 1.0)
                    runtime.step(optimizer)
                    steps += 1
                    evaluate()
    expected = original(mean, 29, 21, torch.float64)
    return max((model.state_dict()[k] - v).abs().max().item() for k, v in expected.items()), steps


def test_evaluation_between_micro_batches_changes_nothing(pool2: Pool) -> None:
    for gap, steps in pool2.run(evaluated_between):
        assert gap < 1e-10
        assert steps == 4


def conflicting() -> list[str]:
    """A mean by counts and a sum in one loss: their window can't be right for both, and that is said."""
    from distify import runtime

    runtime.init(backend="ddp", accumulate=3)
    model, (x, y) = Net().double(), cases.data(29, torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    runtime.prepare(model, optimizer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for x, y in runtime.shard(loader(28, 7, torch.float64)):
            with runtime.accumulate():
                runtime.backward(ignored(runtime, model, x, y) + total(runtime, model, x, y))
    return [str(w.message) for w in caught if "accumulation" in str(w.message)]


def test_terms_that_weigh_differently_are_reported(pool2: Pool) -> None:
    for messages in pool2.run(conflicting):
        assert messages
        assert "factors" in messages[0]


def test_without_accumulation_a_block_starts_and_ends_at_once() -> None:
    from distify import runtime

    runtime.init()
    try:
        with runtime.accumulate() as window:
            assert window.starts
            assert window.ends
        with runtime.accumulate(last=False) as window:
            assert window.ends
    finally:
        runtime.shutdown()


def metrics_beside() -> tuple[float, int]:
    """A sum that is only printed does not count as a term of the loss."""
    from distify import runtime

    runtime.init(backend="ddp", accumulate=3)
    model = cases.build("", torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    runtime.prepare(model, optimizer)
    steps = 0
    for _ in range(2):
        for x, y in runtime.shard(loader(29, 7, torch.float64)):
            with runtime.accumulate() as window:
                if window.starts:
                    optimizer.zero_grad()
                loss = ignored(runtime, model, x, y)
                runtime.sum(model(x).sum())
                runtime.mean(model(x).mean(), by=2.0)
                with warnings.catch_warnings():
                    warnings.simplefilter("error", UserWarning)
                    runtime.backward(loss, retain_graph=False)
                if window.ends:
                    runtime.clip_grad_norm_(model.parameters(), 1.0)
                    runtime.step(optimizer)
                    steps += 1
    expected = original(ignored, 29, 21, torch.float64)
    return max((model.state_dict()[k] - v).abs().max().item() for k, v in expected.items()), steps


def test_what_is_only_printed_weighs_nothing(pool2: Pool) -> None:
    for gap, steps in pool2.run(metrics_beside):
        assert gap < 1e-10
        assert steps == 4
