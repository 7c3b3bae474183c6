"""Copies of a batch's tensors name the batch, and torch is left as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import Variable

from tests.pool import Pool

WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "to": lambda x: x.to(torch.float64),
    "to twice": lambda x: x.to(torch.float64).to("cpu", torch.float32),
    "long": lambda x: x.long(),
    "type": lambda x: x.type(torch.DoubleTensor),
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "variable": lambda x: Variable(x.to(torch.float64), requires_grad=False),
}


def rows(way: str) -> tuple[int, int]:
    """What the runtime counts for copies from two sources that hold equal numbers of rows on rank 0."""
    from distify import runtime

    runtime.init()
    first = runtime.split(torch.arange(12.0).reshape(4, 3))
    second = runtime.split(torch.arange(9.0).reshape(3, 3))
    copies = WAYS[way](first), WAYS[way](second)
    return int(runtime.sum(len(copies[0]), of=copies[0])), int(runtime.sum(len(copies[1]), of=copies[1]))


@pytest.mark.parametrize("way", list(WAYS))
def test_a_copy_names_its_batch(way: str, pool2: Pool) -> None:
    assert pool2.run(rows, way) == [(4, 3)] * 2


def before_and_after() -> tuple[bool, bool]:
    from distify import runtime

    runtime.init()
    during = "to" in vars(Tensor) and "__call__" in vars(type(Variable))
    runtime.shutdown()
    return during, "to" in vars(Tensor) or "__call__" in vars(type(Variable))


def test_methods_are_put_back(pool2: Pool) -> None:
    assert pool2.run(before_and_after) == [(True, False)] * 2


def compiled() -> list[float]:
    from distify import runtime

    runtime.init()
    function = torch.compile(lambda x: (x.to(torch.float64) * 2).float().detach(), backend="eager", fullgraph=True)
    return function(torch.ones(2)).tolist()  # type: ignore[no-any-return]


def test_compiled_functions_stay_whole(pool2: Pool) -> None:
    assert pool2.run(compiled) == [[2.0, 2.0]] * 2
