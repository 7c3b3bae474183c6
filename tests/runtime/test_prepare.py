"""`prepare`: what joins the run, what is refused, what stays as it was."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn

from tests.pool import Pool
from tests.runtime.gradient_cases import Net


def runtime() -> Any:
    from distify import runtime

    runtime.init(backend="ddp")
    return runtime


def test_objects_in_any_order_and_in_several_calls(alone: None) -> None:
    from distify.runtime.state import state

    r = runtime()
    a, b, frozen = Net(), nn.Linear(2, 2), nn.Linear(3, 3).requires_grad_(False)
    opt_a, opt_b = torch.optim.Adam(a.parameters()), torch.optim.SGD(b.parameters(), lr=0.1)
    assert r.prepare(opt_a, frozen, a) is a
    r.prepare(b, opt_b)
    assert state.modules == [a, b]
    assert state.optimizers == [opt_a, opt_b]
    assert type(a) is Net


def test_what_is_refused(alone: None) -> None:
    from distify.runtime.state import DistifyError

    r = runtime()
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(DistifyError, match=r"param_groups\[0\]\['params'\]\[0\] of shape \(8, 6\).* and 1 more"):
        r.prepare(optimizer)
    with pytest.raises(DistifyError, match=r"not a StepLR.*runtime\.step"):
        r.prepare(model, torch.optim.lr_scheduler.StepLR(optimizer, 1))
    with pytest.raises(DistifyError, match="Net was prepared before"):
        r.prepare(model, model)
    r.prepare(model, optimizer)
    with pytest.raises(DistifyError, match="SGD was prepared before"):
        r.prepare(optimizer)
    with pytest.raises(DistifyError, match="Net was prepared before"):
        r.prepare(model)
    r.prepare(model, torch.optim.SGD(model.parameters(), lr=0.2))  # a later phase of the same model
    with pytest.raises(DistifyError, match="no shape yet"):
        r.prepare(nn.LazyLinear(3))
    with pytest.raises(DistifyError, match="meta device"):
        r.prepare(nn.Linear(2, 2, device="meta"))


def test_a_parameter_that_nobody_updates_is_reported(alone: None) -> None:
    r = runtime()
    model = Net()
    optimizer = torch.optim.SGD(model.first.parameters(), lr=0.1)
    with pytest.warns(
        UserWarning, match="no optimizer updates second.weight, second.bias, rare.weight, rare.bias of Net"
    ):
        r.prepare(model, optimizer)
    other = Net()
    other.second.requires_grad_(False)
    other.rare.requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        r.prepare(other, torch.optim.SGD(other.first.parameters(), lr=0.1))
        r.prepare(nn.Linear(2, 2))  # its optimizer may come later, or be made by hand


class Odd(nn.Module):
    """Buffers of several types, a tied weight, and a buffer that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
        self.b.weight = self.a.weight
        self.conv = nn.Conv2d(2, 2, 2).to(memory_format=torch.channels_last)
        self.register_buffer("count", torch.tensor(torch.initial_seed() % 1000))
        self.register_buffer("mask", torch.rand(5) > 0.5)
        self.register_buffer("noise", torch.rand(4, dtype=torch.float64), persistent=False)
        self.register_buffer("nothing", torch.empty(0))


def made_equal() -> list[Any]:
    r = runtime()
    torch.manual_seed(100 + r.rank())
    trained, teacher = Odd(), nn.Linear(2, 2).requires_grad_(False)
    r.prepare(trained, teacher)
    return [t.detach().clone() for m in (trained, teacher) for t in (*m.parameters(), *m.buffers())]


def test_all_ranks_start_from_rank_0_s_values(pool3: Pool) -> None:
    first, *others = pool3.run(made_equal)
    torch.manual_seed(100)
    expected = [t for m in (Odd(), nn.Linear(2, 2)) for t in (*m.parameters(), *m.buffers())]
    assert all(torch.equal(a, b) for a, b in zip(first, expected, strict=True))
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self) -> torch.Tensor:
        return torch.rand(3) * self.w


def private_forward() -> tuple[list[float], list[float]]:
    r = runtime()
    model, teacher = Noisy(), Noisy().requires_grad_(False)
    r.prepare(model, teacher)
    torch.manual_seed(1)
    inside = model().tolist()
    return inside, [*torch.rand(2).tolist(), *teacher().tolist()]


def test_forwards_of_trained_modules_draw_privately(pool2: Pool) -> None:
    (inside0, outside0), (inside1, outside1) = pool2.run(private_forward)
    assert inside0 != inside1
    assert outside0 == outside1
    torch.manual_seed(1)
    assert outside0 == [*torch.rand(2).tolist(), *torch.rand(3).tolist()]


def test_sharding_wants_the_model_on_the_device_of_the_run() -> None:
    from distify.runtime.admission import check_devices
    from distify.runtime.state import DistifyError

    model = nn.Linear(2, 2)
    check_devices([model], "ddp", torch.device("cuda", 0))
    check_devices([model], "fsdp", torch.device("cpu"))
    for backend in ("fsdp", "deepspeed"):
        with pytest.raises(DistifyError, match=r"'weight' is on cpu.*model\.to\(runtime\.device\(\)\)"):
            check_devices([model], backend, torch.device("cuda", 0))


def test_parameters_of_no_module(alone: None) -> None:
    from distify.runtime.state import DistifyError

    r = runtime()
    model, w, v = Net(), nn.Parameter(torch.zeros(2)), torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([*model.parameters(), w, v], lr=0.1)
    with pytest.raises(DistifyError, match="belong to no prepared module"):
        r.prepare(model, w, optimizer)


def test_parameters_of_a_module_are_prepared_with_it(alone: None) -> None:
    from distify.runtime.state import DistifyError, state

    r = runtime()
    model, w, v = Net(), nn.Parameter(torch.zeros(2)), torch.zeros(3, requires_grad=True)
    params = [*model.parameters(), w, v]
    optimizer = torch.optim.SGD(params, lr=0.1)
    r.prepare(*params, model, v, optimizer)
    assert [sum(1 for _ in m.parameters()) for m in state.modules] == [len(list(model.parameters())), 1, 1]
    assert state.modules[1]._parameters["tensor"] is w
    assert state.modules[2]._parameters["tensor"] is v
    with pytest.raises(DistifyError, match="not a Tensor"):
        r.prepare(torch.zeros(2))
    with pytest.raises(DistifyError, match="not a Tensor"):
        r.prepare(v * 2)
