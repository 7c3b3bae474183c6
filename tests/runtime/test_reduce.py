"""Reductions of tensors and numbers: values, kinds, filler rows, and errors."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.pool import Pool, RankError


def start(n: int = 7, **options: Any) -> tuple[Any, Tensor]:
    from distify import runtime

    runtime.init(backend="ddp", **options)
    x = torch.arange(float(n), dtype=torch.float64) + 1
    return runtime, runtime.split(x)


def values(n: int) -> dict[str, Any]:
    runtime, x = start(n)
    real = x if runtime.rank() < n else x * math.nan
    return {
        "mean": runtime.mean(real.mean()),
        "by": runtime.mean(real.sum() / len(x), by=len(x)),
        "sum": runtime.sum(real.sum()),
        "max": runtime.max(real.max()),
        "min": runtime.min(real.min()),
        "gather": runtime.gather(real),
        "pairs": runtime.mean(torch.stack([real.mean(), (real * 2).mean()])),
        "count": runtime.sum(len(x)),
        "number": runtime.mean(float(real.mean())),
        "largest": runtime.max(int(x.max().item())),
        "flags": runtime.sum((x > 2).sum()),
        "bools": runtime.sum(x[0] > 0),
        "numpy": runtime.sum(np.array([1.0, float(real[0])])),
    }


@pytest.mark.parametrize("n", [7, 2, 1])
def test_values_are_those_of_the_whole_batch_on_every_rank(n: int, pool3: Pool) -> None:
    x = torch.arange(float(n), dtype=torch.float64) + 1
    firsts = [part[0].item() for part in x.tensor_split(3) if len(part)]
    for found in pool3.run(values, n):
        assert found["mean"].item() == pytest.approx(x.mean().item(), abs=1e-12)
        assert found["by"].item() == pytest.approx(x.mean().item(), abs=1e-12)
        assert found["sum"].item() == x.sum().item()
        assert found["max"].item() == n
        assert found["min"].item() == 1
        assert found["gather"].tolist() == x.tolist()
        assert found["pairs"].tolist() == pytest.approx([x.mean().item(), 2 * x.mean().item()], abs=1e-12)
        assert found["count"] == n
        assert found["number"] == pytest.approx(x.mean().item(), abs=1e-12)
        assert found["largest"] == n
        assert found["flags"].item() == (x > 2).sum().item()
        assert found["flags"].dtype == torch.int64
        assert found["bools"].item() == min(n, 3)
        assert found["numpy"].tolist() == [min(n, 3), sum(firsts)]
        assert type(found["count"]) is int
        assert type(found["largest"]) is int
        assert type(found["number"]) is float


def exact_sums() -> Any:
    """Large whole numbers keep every digit; float32 sums are added up in double precision."""
    runtime, _x = start()
    whole = runtime.sum(2**60 + runtime.rank())
    third = runtime.sum(torch.tensor(1 / 3, dtype=torch.float32))
    half = runtime.mean(torch.tensor(1.5, dtype=torch.bfloat16))
    return whole, third, half, runtime.max(True), runtime.sum(torch.tensor([1, 2], dtype=torch.int32))


def test_whole_numbers_are_exact_and_types_are_kept(pool2: Pool) -> None:
    for whole, third, half, flag, ints in pool2.run(exact_sums):
        assert whole == 2**61 + 1
        assert third.dtype == torch.float32
        assert third.item() == torch.tensor(2 / 3, dtype=torch.float32).item()
        assert half.dtype == torch.bfloat16
        assert flag is True
        assert ints.dtype == torch.int64
        assert ints.tolist() == [2, 4]


def not_numbers() -> Any:
    runtime, _x = start()
    mine = torch.tensor(math.nan if runtime.rank() == 1 else 3.0)
    return [f(mine).item() for f in (runtime.mean, runtime.sum, runtime.max, runtime.min)]


def test_nan_of_one_rank_reaches_all(pool2: Pool) -> None:
    assert all(math.isnan(v) for found in pool2.run(not_numbers) for v in found)


def gathers() -> Any:
    runtime, x = start(5)
    rows = x[:, None] * torch.tensor([1.0, 10.0])
    return {
        "dim": runtime.gather(rows.t().contiguous(), dim=1),
        "masked": runtime.gather(x[x > 2.5]),
        "empty": runtime.gather(x[x > 9]),
        "objects": runtime.gather([f"row {int(v)}" for v in x]),
        "nested": runtime.gather({"a": x, "b": (x.int(), x > 3)}),
        "numpy": runtime.gather(x.numpy()),
        "bf16": runtime.gather(x.bfloat16()),
        "none": runtime.gather(None),
        "squeezed": runtime.gather(x[:, None].squeeze()),
        "squeezed rows": runtime.gather(rows.squeeze()),
    }


def test_gather_restores_the_original_s_order(pool2: Pool, pool3: Pool) -> None:
    x = torch.arange(1.0, 6.0, dtype=torch.float64)
    for found in [*pool2.run(gathers), *pool3.run(gathers)]:
        assert torch.equal(found["dim"], torch.stack([x, 10 * x]))
        assert found["masked"].tolist() == [3, 4, 5]
        assert found["empty"].shape == (0,)
        assert found["objects"] == [f"row {k}" for k in range(1, 6)]
        assert torch.equal(found["nested"]["a"], x)
        assert found["nested"]["b"][0].dtype == torch.int32
        assert found["nested"]["b"][1].tolist() == [False, False, False, True, True]
        assert found["numpy"].tolist() == x.tolist()
        assert found["bf16"].dtype == torch.bfloat16
        assert found["none"] is None
        assert torch.equal(found["squeezed"], x)
        assert torch.equal(found["squeezed rows"], torch.stack([x, 10 * x], dim=1))


def filler_objects() -> Any:
    runtime, x = start(1)
    return runtime.gather(["only"]), runtime.gather(x), runtime.sum(len(x)), runtime.max(float(x) + runtime.rank())


def test_a_filler_row_is_nobody_s(pool3: Pool) -> None:
    for objects, rows, count, top in pool3.run(filler_objects):
        assert objects == ["only"]
        assert rows.tolist() == [1.0]
        assert count == 1
        assert top == 1.0


def wrong_shape() -> None:
    runtime, x = start()
    runtime.mean(x)


def wrong_rows() -> None:
    runtime, _x = start()
    runtime.gather(torch.ones(2, 3 + runtime.rank()))


def scalar_gather() -> None:
    runtime, x = start()
    runtime.gather(x.mean())


def wrong_kind() -> None:
    runtime, _x = start()
    runtime.sum([1, 2])


def no_batch() -> None:
    from distify import runtime

    runtime.init()
    runtime.mean(1.0)


def alone() -> None:
    runtime, x = start()
    runtime.on_main(lambda: runtime.mean(x.mean()))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (wrong_shape, r"shapes \(4,\), \(3,\).*runtime.gather"),
        (wrong_rows, r"gather\(dim=0\).*\(3,\), \(4,\)"),
        (scalar_gather, "0-dim tensor has no rows"),
        (wrong_kind, "a list can't be reduced.*runtime.gather"),
        (no_batch, "outside any batch"),
        (alone, "runs alone"),
    ],
)
def test_mistakes_are_errors_on_all_ranks(function: Any, message: str, pool2: Pool) -> None:
    with pytest.raises(RankError) as caught:
        pool2.run(function)
    assert all(t is not None and t != "Killed" for t in caught.value.types)
    assert any(re.search(message, text.replace("\n", " ")) for text in caught.value.messages)


def in_place() -> float:
    """Users scale losses in place."""
    runtime, x = start()
    x.requires_grad_()
    loss = runtime.mean(x.mean())
    loss /= 2
    loss.add_(runtime.sum(x.sum()))
    runtime.backward(loss)
    assert x.grad is not None
    return float(x.grad[0])


def test_results_may_be_changed_in_place(pool2: Pool) -> None:
    assert pool2.run(in_place) == pytest.approx([1 / 14 + 1] * 2)  # half of a mean over 7 rows, and a sum


def ties() -> Any:
    runtime, x = start(4)
    x = (x + 1).requires_grad_()
    ones = x / x.detach()
    runtime.backward(runtime.max(ones.max()))
    assert x.grad is not None
    return x.grad * x.detach()


def test_the_gradient_of_a_maximum_is_shared_by_its_owners(pool2: Pool) -> None:
    for grad in pool2.run(ties):
        assert grad.tolist() == [0.25, 0.25]


def test_one_process_is_the_identity() -> None:
    from distify import runtime

    runtime.init()
    try:
        x = torch.ones(3, requires_grad=True)
        assert runtime.mean(x) is x
        assert runtime.sum(x, of=None) is x
        assert runtime.gather(x, 0) is x
        assert runtime.max(3) == 3
        assert runtime.mean(2, by=3) == 2
    finally:
        runtime.shutdown()


def test_before_init_the_error_says_what_to_do() -> None:
    from distify import runtime
    from distify.runtime.state import NotInitialized

    for call in (runtime.mean, runtime.sum, runtime.max, runtime.min, runtime.gather, runtime.backward):
        with pytest.raises(NotInitialized, match=r"runtime\.init"):
            call(torch.ones(()))
