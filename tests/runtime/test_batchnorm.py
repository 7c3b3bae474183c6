"""Exact BatchNorm: outputs, gradients and running statistics of the whole batch from slices."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.pool import Pool, RankError
from tests.runtime.gradient_cases import Plain

SHAPES: dict[str, tuple[type[nn.Module], tuple[int, ...], dict[str, Any]]] = {
    "1d": (nn.BatchNorm1d, (5,), {}),
    "1d long": (nn.BatchNorm1d, (5, 3), {"momentum": 0.3}),
    "2d": (nn.BatchNorm2d, (5, 4, 4), {"eps": 1e-3}),
    "3d": (nn.BatchNorm3d, (5, 2, 2, 2), {"momentum": None}),
    "no affine": (nn.BatchNorm2d, (5, 4, 4), {"affine": False}),
    "no statistics": (nn.BatchNorm2d, (5, 4, 4), {"track_running_stats": False}),
}


def inputs(n: int, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, *shape, generator=generator, dtype=torch.float64) * 3 + 1
    return x, torch.randn(n, *shape, generator=generator, dtype=torch.float64)


def layer(kind: str) -> nn.Module:
    cls, shape, options = SHAPES[kind]
    torch.manual_seed(0)
    made = cls(shape[0], **options).double()
    for p in made.parameters():
        nn.init.normal_(p)
    return made


def exact(kind: str, n: int, double: bool) -> float:
    """Largest error in loss, input gradient, parameter gradients and buffers, after two batches."""
    from distify import runtime

    model, whole = layer(kind), layer(kind)
    x, t = inputs(n, SHAPES[kind][1])
    head = nn.Parameter(torch.ones((), dtype=torch.float64))
    box = nn.ModuleList([model, nn.ParameterList([head])])
    gaps = []
    for r, m in ((Plain, whole), (runtime, model)):
        rows, truth = x, t
        if r is runtime:
            runtime.init(backend="ddp")
            runtime.prepare(box)
            rows, truth = runtime.split((x, t))
        rows = rows.clone().requires_grad_()
        for k in range(2):
            out = m(rows * (k + 1))
            if double:
                (g,) = r.grad((out * truth).pow(3).sum(), rows, create_graph=True)
                loss = r.mean((g.flatten(1).norm(dim=1) - 1).pow(2).mean()) + r.mean((out * truth).pow(2).mean())
            else:
                loss = r.mean((out * truth).pow(2).mean())
            r.backward(loss * head if r is runtime else loss)
        gaps.append((loss.detach(), rows.grad, [p.grad for p in m.parameters()], dict(m.named_buffers())))
    (loss2, d_x2, grads2, buffers2), (loss, d_x, grads, buffers) = gaps
    errors = [(loss - loss2).abs().item()]
    errors += [(a - b).abs().max().item() for a, b in zip(grads, grads2, strict=True)]
    errors += [(buffers[k] - buffers2[k]).abs().max().item() for k in buffers2]
    if not double and runtime.rank() < n:
        start = sum(len(part) for part in x.tensor_split(runtime.world_size())[: runtime.rank()])
        assert d_x is not None
        assert d_x2 is not None
        errors.append((d_x - d_x2[start : start + len(d_x)]).abs().max().item())
    return max(errors)


@pytest.mark.parametrize("kind", SHAPES)
def test_equals_one_process(kind: str, pool2: Pool, pool3: Pool) -> None:
    for pool in (pool2, pool3):
        for n in (7, 2) if "long" not in kind else (7, 2, 1):
            assert max(pool.run(exact, kind, n, False)) < 1e-12, n


@pytest.mark.parametrize("kind", ["1d", "2d", "no affine"])
def test_differentiates_twice(kind: str, pool2: Pool) -> None:
    assert max(pool2.run(exact, kind, 7, True)) < 1e-9


def one_row() -> None:
    from distify import runtime

    model = nn.BatchNorm1d(5)
    runtime.init(backend="ddp")
    runtime.prepare(model)
    model(runtime.split(torch.ones(1, 5)))


def test_one_value_per_channel_is_the_original_s_error(pool2: Pool) -> None:
    with pytest.raises(RankError, match="Expected more than 1 value per channel") as caught:
        pool2.run(one_row)
    assert caught.value.types == ["ValueError", "ValueError"]


def replicated(rows: int) -> float:
    """A fixed noise vector, the same on all ranks, normalises by its own statistics, and so do gradients."""
    from distify import runtime

    model, whole = layer("2d"), layer("2d")
    x, _ = inputs(4, (5, 4, 4))
    results = []
    for m in (whole, model):
        if m is model:
            runtime.init(backend="ddp")
            runtime.prepare(model)
            runtime.split(torch.ones(rows, 1))
        z = x.clone().requires_grad_()
        out = m(z)
        grads = torch.autograd.grad(out.pow(3).mean(), [z, *m.parameters()])
        results.append([out, *grads, *m.buffers()])
    return max((a - b).abs().max().item() for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("rows", [7, 1])
def test_what_all_ranks_hold_counts_once(rows: int, pool3: Pool) -> None:
    """Also on a rank whose slice of the batch in use is a filler."""
    assert max(pool3.run(replicated, rows)) < 1e-12


def half(dtype: torch.dtype) -> tuple[float, str]:
    from distify import runtime

    model = nn.BatchNorm2d(5)
    whole = copy.deepcopy(model)
    runtime.init(backend="ddp")
    runtime.prepare(model)
    x = inputs(7, (5, 4, 4))[0].to(dtype)
    mine, start = runtime.split(x), 0 if runtime.rank() == 0 else 4
    out = model(mine)
    gap = (out.float() - whole(x).float()[start : start + len(mine)]).abs().max().item()
    return max(gap, (model.running_var - whole.running_var).abs().max().item()), str(out.dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_low_precision_inputs(dtype: torch.dtype, pool2: Pool) -> None:
    for gap, kind in pool2.run(half, dtype):
        assert gap < (0.05 if dtype == torch.bfloat16 else 1e-5)
        assert kind == str(dtype)


def untouched() -> list[bool]:
    """Eval mode, other classes, copies and pickles are torch's own."""
    import io

    from distify import runtime

    model = nn.Sequential(nn.BatchNorm2d(5), nn.InstanceNorm2d(5), nn.SyncBatchNorm(5).eval()).double()
    runtime.init(backend="ddp")
    runtime.prepare(model)
    x, _ = inputs(7, (5, 4, 4))
    mine = runtime.split(x)
    model.eval()
    expected = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model, file)
    found = [type(model[0]) is nn.BatchNorm2d, b"distify.runtime.batchnorm" not in file.getvalue()]
    found.append(torch.equal(model(mine), expected(mine)))
    runtime.shutdown()
    model.train()[2].eval()
    return [*found, torch.equal(model[0](x), nn.BatchNorm2d(5).double()(x))]  # one process again


def test_the_rest_is_left_alone(pool2: Pool) -> None:
    assert pool2.run(untouched) == [[True] * 4] * 2


def local() -> tuple[float, float, list[float]]:
    """`batchnorm="local"`: statistics of the slice; eval and files take rank 0's."""
    from distify import runtime
    from distify.runtime.state import state

    model, whole = layer("2d"), layer("2d")
    runtime.init(backend="ddp", batchnorm="local")
    runtime.prepare(model)
    x, _ = inputs(7, (5, 4, 4))
    mine = runtime.split(x)
    gap = (model(mine) - whole(mine)).abs().max().item()
    assert state.backend is not None
    mean = state.backend.state_dict(model)["running_mean"].clone()
    model(mine)
    model.eval()
    model(mine)
    return gap, float(mean.sum()), model.running_mean.tolist()  # type: ignore[union-attr, operator]


def test_local_statistics_are_shared_before_they_are_used(pool2: Pool) -> None:
    (gap0, saved0, mean0), (gap1, saved1, mean1) = pool2.run(local)
    assert gap0 == gap1 == 0.0
    assert saved0 == saved1
    assert mean0 == mean1
