"""Batches that the script makes itself, and random tensors as long as them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch

from distify import runtime
from distify.runtime.state import state
from tests.pool import Pool, RankError

Point = namedtuple("Point", "x y")


def structures() -> dict[str, Any]:
    x = torch.arange(14).view(7, 2)
    return {
        "tensor": x,
        "tuple": (x, x[:, 0], 5, torch.tensor(1.0)),
        "dict": {"x": x, "names": [f"n{k}" for k in range(7)], "deep": [Point(x, None), (x + 1,)]},
        "numpy": (np.arange(7), np.ones((7, 2))),
        "strings": [str(k) for k in range(7)],
    }


def cut(name: str) -> Any:
    runtime.init()
    whole = structures()[name]
    part = runtime.split(whole)
    record = state.batches.current("test")
    return part, record.counts, record.start


def rows(value: Any, low: int, high: int) -> Any:
    if isinstance(value, dict):
        return {k: rows(v, low, high) for k, v in value.items()}
    if isinstance(value, Point):
        return Point(*(rows(v, low, high) for v in value))
    if isinstance(value, (list, tuple)) and not isinstance(value[0], str):
        return type(value)(rows(v, low, high) for v in value)
    if isinstance(value, (int, type(None))) or (isinstance(value, torch.Tensor) and value.dim() == 0):
        return value
    return value[low:high]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (torch.Tensor, np.ndarray)):
        return type(a) is type(b) and a.dtype == b.dtype and np.array_equal(np.asarray(a), np.asarray(b))
    return a == b


@pytest.mark.parametrize("name", list(structures()))
def test_structures_are_cut_in_rank_order(name: str, pool3: Pool) -> None:
    whole = structures()[name]
    for (part, counts, start), (low, high) in zip(pool3.run(cut, name), [(0, 3), (3, 5), (5, 7)]):
        assert same(part, rows(whole, low, high))
        assert counts == (3, 2, 2)
        assert start == low


def other_cuts() -> Any:
    runtime.init()
    x = torch.arange(12).view(3, 4)
    sequence = runtime.split(x, dim=1)
    assert sequence.is_contiguous()
    leaf = torch.ones(4, requires_grad=True)
    runtime.split(leaf).sum().backward()
    one = runtime.split(torch.tensor([[5.0]]))
    record = state.batches.current("test", of=one)
    return sequence.tolist(), leaf.grad.tolist(), one.tolist(), (record.rows, record.local, record.filler)


def test_sequence_first_gradients_and_filler(pool2: Pool) -> None:
    one, two = pool2.run(other_cuts)
    assert one == ([[0, 1], [4, 5], [8, 9]], [1, 1, 0, 0], [[5.0]], (1, 1, False))
    assert two == ([[2, 3], [6, 7], [10, 11]], [0, 0, 1, 1], [[5.0]], (0, 1, True))


def bad(kind: str) -> None:
    runtime.init()
    runtime.split((torch.ones(4), torch.ones(5)) if kind == "rows" else 3)


@pytest.mark.parametrize(
    ("kind", "message"), [("rows", r"test_split\.py:\d+ can't cut.*4 and 5 rows"), ("none", "nothing in it has rows")]
)
def test_what_can_not_be_cut_is_refused(kind: str, message: str, pool2: Pool) -> None:
    with pytest.raises(RankError, match=message):
        pool2.run(bad, kind)


def test_one_process_returns_the_same_object() -> None:
    try:
        runtime.init()
        batch = {"x": torch.ones(3)}
        assert runtime.split(batch) is batch
        torch.manual_seed(0)
        drawn = runtime.draw(torch.randn, 3, 2)
        torch.manual_seed(0)
        assert torch.equal(drawn, torch.randn(3, 2))
    finally:
        runtime.shutdown()


DRAWS = {
    "randn": lambda x, draw: draw(torch.randn, x.size(0), 5),
    "rand size tuple": lambda x, draw: draw(torch.rand, (x.size(0), 5)),
    "rand torch.Size": lambda x, draw: draw(torch.rand, x.size()),
    "randint": lambda x, draw: draw(torch.randint, 0, 1000, (x.shape[0],)),
    "randint size=": lambda x, draw: draw(torch.randint, 1000, size=(x.shape[0], 2)),
    "randn_like": lambda x, draw: draw(torch.randn_like, x),
    "rand_like, transposed": lambda x, draw: draw(
        torch.rand_like, x[:, :, None, None].expand(-1, -1, 3, 5).clone(memory_format=torch.channels_last)
    ),
    "randint_like": lambda x, draw: draw(torch.randint_like, x, 0, 99),
    "bernoulli": lambda x, draw: draw(torch.bernoulli, x.sigmoid()),
    "normal": lambda x, draw: draw(torch.normal, x, x.abs() + 1),
    "own generator": lambda x, draw: draw(torch.randn, x.size(0), generator=torch.Generator().manual_seed(4)),
    "numpy": lambda x, draw: torch.from_numpy(draw(np.random.normal, 0.0, 1.0, (x.size(0), 3))),
    "numpy size": lambda x, draw: torch.from_numpy(draw(np.random.uniform, size=x.size(0))),
    "numpy randint": lambda x, draw: torch.from_numpy(draw(np.random.randint, 0, 900, x.size(0))),
    "double": lambda x, draw: draw(torch.randn, x.size(0), 3, dtype=torch.float64),
}


def plain(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def seeded() -> torch.Tensor:
    torch.manual_seed(11)
    np.random.seed(11)
    return torch.linspace(-1, 1, 35).view(7, 5)


def drawn(name: str, rows: int) -> Any:
    runtime.init()
    x = runtime.split(seeded()[:rows])
    with state.streams.private():  # a draw inside a forward is global too
        made = DRAWS[name](x, runtime.draw)
    return made, torch.rand(1).item(), np.random.rand()


@pytest.mark.parametrize("name", list(DRAWS))
def test_draws_are_the_originals_rows(name: str, pool3: Pool) -> None:
    for rows, slices in ((7, [(0, 3), (3, 5), (5, 7)]), (2, [(0, 1), (1, 2), (0, 1)])):
        whole = DRAWS[name](seeded()[:rows], plain)
        after = torch.rand(1).item(), np.random.rand()
        for (part, *streams), (low, high) in zip(pool3.run(drawn, name, rows), slices):
            assert torch.equal(part, whole[low:high])
            assert part.dtype == whole.dtype
            assert tuple(streams) == after


def wrong() -> None:
    runtime.init()
    runtime.split(torch.ones(7, 2))
    runtime.draw(torch.randn, 16, 3)


def test_a_size_that_is_not_the_slices_is_refused(pool2: Pool) -> None:
    with pytest.raises(RankError, match=r"runtime\.draw\(randn\): no argument is this rank's number of rows, 4 \(of 7"):
        pool2.run(wrong)
