"""What a step of training costs beside the arithmetic: collectives are counted, and cheap forms equal the plain ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from tests.pool import Pool


def plain(x: Tensor, weight: float) -> Tensor:
    """The sum over ranks of `weight * x`, step by step as the definition says."""
    from distify.runtime.collectives import accumulator

    dtype = accumulator(x)
    local = x.detach().to(dtype)
    local = torch.zeros_like(local) if weight == 0.0 else local * weight
    flat = (torch.view_as_real(local) if local.is_complex() else local).reshape(-1).clone()
    dist.all_reduce(flat)
    whole = torch.view_as_complex(flat.reshape(*local.shape, 2)) if local.is_complex() else flat.reshape(local.shape)
    return whole.to(x.dtype)


def both(rows: int) -> list[tuple[Any, Any, bool]]:
    from distify import runtime
    from distify.runtime.state import state

    runtime.init(backend="ddp")
    runtime.split(torch.zeros(rows))
    assert state.batches is not None
    batch, found = state.batches.current("mean"), []
    torch.manual_seed(runtime.rank())
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64):
        for shape in ((), (3, 2), (5000,)):
            for graph in (False, True):
                x = torch.randn(shape, dtype=dtype) * 1.7
                x = x.t() if x.dim() == 2 else x
                x = x * 0.1 * torch.nan if batch.filler else x * 0.1
                x.requires_grad_(graph)
                for value, weight in (
                    (runtime.mean(x), batch.share),
                    (runtime.sum(x), float(not batch.filler)),
                ):
                    found.append((value.detach(), plain(x, weight), value.requires_grad is graph))
                    assert not value._is_view()
    return [(a.resolve_conj(), b.resolve_conj(), same) for a, b, same in found]


@pytest.mark.parametrize("rows", [7, 1])
def test_reductions_are_to_the_bit_what_their_definition_gives(rows: int, pool2: Pool) -> None:
    for found in pool2.run(both, rows):
        for value, wanted, same in found:
            assert same
            assert value.dtype == wanted.dtype
            assert torch.equal(value, wanted)


def counted(function: Callable[[], Any]) -> list[str]:
    """The collectives that a function makes on this rank, by the names of what was called."""
    import distify.runtime.backends.buckets as buckets
    import distify.runtime.collectives as collectives

    made: list[str] = []

    def watch(original: Callable[..., Any]) -> Callable[..., Any]:
        def reach(called: Callable[..., Any], *args: Any, **options: Any) -> Any:
            if called.__name__ != "wait":
                made.append(called.__name__)
            return original(called, *args, **options)

        return reach

    before = collectives.reach, buckets.reach
    collectives.reach, buckets.reach = watch(before[0]), watch(before[1])
    try:
        function()
    finally:
        collectives.reach, buckets.reach = before
    return made


def steps() -> list[list[str]]:
    from distify import runtime

    runtime.init(backend="ddp")
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    runtime.prepare(model, optimizer)

    def step() -> None:
        x, y = runtime.split((torch.randn(6, 4), torch.randint(3, (6,))))
        optimizer.zero_grad()
        logits = model(x)
        loss = runtime.mean(torch.nn.functional.cross_entropy(logits, y))
        runtime.backward(loss)
        runtime.step(optimizer)
        loss.item()

    def metrics() -> None:
        step()
        hits = runtime.sum(torch.ones((), dtype=torch.int64))
        runtime.sum(torch.ones((), dtype=torch.int64)).item() / runtime.sum(3) + hits

    return [counted(f) for _ in range(3) for f in (step, metrics)][2:]


def test_a_step_makes_one_collective_for_its_loss_and_one_for_each_bucket_and_count(pool2: Pool) -> None:
    for found in pool2.run(steps):
        assert found == [["all_reduce"] * 2, ["all_reduce"] * 5] * 2


@pytest.mark.parametrize("drawn", [0, 1, 2])
@pytest.mark.parametrize("inside", [0, 1, 700])
def test_numpy_s_stream_goes_on_after_a_fetch_as_if_there_had_been_none(drawn: int, inside: int) -> None:
    from distify.runtime.numpy_stream import NumpyStream

    kept = np.random.get_state()
    try:
        stream = NumpyStream(np.random)
        np.random.seed(7)
        wanted = np.random.randn(3 * drawn + 5).tolist()
        np.random.seed(7)
        found: list[float] = []
        for _ in range(3):
            found += np.random.randn(drawn).tolist()
            stream.begin(123)
            first = np.random.randn(inside).tolist()
            assert first == np.random.RandomState(123).randn(inside).tolist()
            stream.end()
        assert stream.address is not None
        assert [*found, *np.random.randn(5).tolist()] == wanted
    finally:
        np.random.set_state(kept)


def test_numpy_s_stream_keeps_the_number_that_a_script_brought_back() -> None:
    """The same memory as before, with the second number of a pair once more."""
    from distify.runtime.numpy_stream import NumpyStream

    kept = np.random.get_state()
    try:
        stream = NumpyStream(np.random)
        np.random.seed(0)
        np.random.randn()
        before = np.random.get_state()
        wanted = np.random.randn(3).tolist()
        for draw in (0, 1, 0):
            np.random.set_state(before)
            np.random.randn(draw)
            stream.begin(5)
            np.random.randn()
            stream.end()
            assert np.random.randn(3 - draw).tolist() == wanted[draw:]
        assert stream.address is not None
    finally:
        np.random.set_state(kept)


def test_numpy_s_stream_is_kept_where_its_memory_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    from distify.runtime.numpy_stream import NumpyStream

    kept = np.random.get_state()
    try:
        stream = NumpyStream(np.random)
        monkeypatch.setattr(stream, "_generator", lambda: None)
        np.random.seed(7)
        wanted = np.random.randn(5).tolist()
        np.random.seed(7)
        stream.begin(123)
        np.random.randn(3)
        stream.end()
        assert stream.address is None
        assert np.random.randn(5).tolist() == wanted
    finally:
        np.random.set_state(kept)
