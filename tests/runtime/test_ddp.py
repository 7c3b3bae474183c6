"""The reducer of ddp: `None` gradients, what is sent when, modules that share a backward, kinds of parameters."""

from __future__ import annotations

import copy
from typing import Any
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.pool import Pool, RankError
from tests.runtime import gradient_cases as cases
from tests.runtime.gradient_cases import Net


def start(*models: nn.Module, lr: float = 1.0, n: int = 7, **options: Any) -> tuple[Any, Tensor, Tensor, list[Any]]:
    from distify import runtime

    runtime.init(backend="ddp", **options)
    optimizers = [torch.optim.SGD(m.parameters(), lr=lr) for m in models]
    runtime.prepare(*models, *optimizers)
    x, y = runtime.split(cases.data(n, torch.float64))
    return runtime, x, y, optimizers


def reducer() -> Any:
    from distify.runtime.state import state

    return state.backend


def nones(name: str) -> dict[str, bool]:
    """Which parameters have no gradient after the case, `rare` being unused."""
    model = cases.build(name, torch.float64)
    runtime, x, y, _ = start(model)
    cases.CASES[name](runtime, model, x, y)
    return {key: p.grad is None for key, p in model.named_parameters()}


@pytest.mark.parametrize("name", ["unused", "all_used", "method", "some_inputs", "retained", "checkpointed"])
def test_none_stays_none_where_no_rank_has_a_gradient(name: str, pool2: Pool) -> None:
    model = cases.build(name, torch.float64)
    cases.CASES[name](cases.Plain, model, *cases.data(7, torch.float64))
    expected = {key: p.grad is None for key, p in model.named_parameters()}
    assert pool2.run(nones, name) == [expected, expected]


def branch() -> tuple[float, list[bool]]:
    """Only rank 0's rows pass `rare`; nobody else has a gradient for it."""
    model, whole = Net().double(), copy.deepcopy(Net().double())
    torch.manual_seed(0)
    runtime, x, _y, _ = start(model)
    whole.load_state_dict(model.state_dict())
    worst = 0.0
    for _ in range(3):  # the first run learns, the next ones send early
        model.zero_grad()
        whole.zero_grad()
        runtime.backward(runtime.sum(model(x, rare=runtime.rank() == 0).pow(2).sum()))
        data = cases.data(7, torch.float64)[0]
        (whole(data[:4], rare=True).pow(2).sum() + whole(data[4:]).pow(2).sum()).backward()
        for p, q in zip(model.parameters(), whole.parameters(), strict=True):
            assert p.grad is not None
            assert q.grad is not None
            worst = max(worst, (p.grad - q.grad).abs().max().item())
    return worst, [p.grad is None for p in model.parameters()]


def test_ranks_may_take_different_branches(pool2: Pool) -> None:
    for worst, none in pool2.run(branch):
        assert worst < 1e-12
        assert not any(none)


def deep() -> dict[str, Any]:
    """A model of several buckets: when they are sent, and what is reused."""
    from distify.runtime.backends import buckets

    with mock.patch.multiple(buckets, FIRST=4000, REST=8000):
        model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(12)]).double()
        runtime, x, _y, _ = start(model)
        ddp, early = reducer(), []
        x = torch.cat([x, x, x], 1)[:, :16]
        order: list[int] = []
        send = buckets.Bucket.send

        def watch(bucket: Any) -> None:
            order.append(ddp.order.index(bucket))
            early.append(ddp.mode == "reduce")
            send(bucket)

        sent = []
        with mock.patch.object(buckets.Bucket, "send", watch):
            for _ in range(3):
                model.zero_grad()
                runtime.backward(runtime.mean(model(x).pow(2).mean()))
                sent.append((list(order), sum(early)))
                order.clear()
                early.clear()
        first = [p.grad for p in model.parameters()]
        storages = {g.untyped_storage().data_ptr() for g in first if g is not None}
        kept = [g.clone() for g in first if g is not None]
        model.zero_grad()
        runtime.backward(runtime.mean(model(-x).abs().mean()))
        untouched = all(torch.equal(a, b) for a, b in zip(first, kept, strict=True) if a is not None)
        again = {p.grad.untyped_storage().data_ptr() for p in model.parameters() if p.grad is not None}
        runtime.backward(runtime.mean(model(-x).abs().mean()))  # accumulates in the same buffers
        same = {p.grad.untyped_storage().data_ptr() for p in model.parameters() if p.grad is not None}
        return {
            "buckets": len(ddp.order),
            "sent": sent,
            "storages": len(storages),
            "untouched": untouched,
            "in place": again == same,
        }


def test_buckets_are_sent_in_order_while_the_backward_runs(pool2: Pool) -> None:
    for found in pool2.run(deep):
        count = found["buckets"]
        assert count >= 3
        assert found["sent"][0] == (list(range(count)), 0)  # the first backward learns what it reaches
        assert found["sent"][1] == (list(range(count)), count)
        assert found["storages"] == count  # gradients are views of the buffers
        assert found["untouched"]  # a gradient that the script keeps is not overwritten by the next backward
        assert found["in place"]


def gan() -> dict[str, Any]:
    """Two models, three backward calls: what is sent for each."""
    torch.manual_seed(0)
    generator, critic = nn.Linear(3, 6).double(), nn.Linear(6, 1).double()
    whole = copy.deepcopy((generator, critic))
    runtime, x, _y, (opt_g, opt_c) = start(generator, critic, lr=0.1)
    plain = [torch.optim.SGD(m.parameters(), lr=0.1) for m in whole]
    full, _ = cases.data(7, torch.float64)
    sent: list[list[int]] = []
    for _ in range(3):
        sent.append([])
        for r, (g, c), (og, oc), rows in (
            (runtime, (generator, critic), (opt_g, opt_c), x),
            (cases.Plain, whole, plain, full),
        ):
            step = runtime.step if r is runtime else lambda o: o.step()
            c.zero_grad()
            r.backward(r.mean(F.softplus(-c(rows)).mean()))
            _count(r, sent)
            fake = g(rows[:, :3])
            r.backward(r.mean(F.softplus(c(fake.detach())).mean()))
            _count(r, sent)
            step(oc)
            g.zero_grad()
            r.backward(r.mean(F.softplus(-c(fake)).mean()))
            _count(r, sent)
            step(og)
    gaps = [
        (p - q).abs().max().item()
        for a, b in zip((generator, critic), whole, strict=True)
        for p, q in zip(a.parameters(), b.parameters(), strict=True)
    ]
    return {"gap": max(gaps), "sent": sent}


def _count(r: Any, sent: list[list[int]]) -> None:
    if r is not cases.Plain:
        sent[-1].append(sum(bucket.sent for unit in reducer().units for bucket in unit.buckets))


def test_two_models_and_what_is_sent_for_each_backward(pool2: Pool) -> None:
    for found in pool2.run(gan):
        assert found["gap"] < 1e-12
        assert found["sent"] == [[1, 1, 2]] * 3  # the critic alone, twice; then both


def shared() -> float:
    """A layer that two models own is reduced once."""
    torch.manual_seed(0)
    layer = nn.Linear(6, 6)
    models = [nn.Sequential(layer, nn.Linear(6, 3)).double() for _ in range(2)]
    whole = copy.deepcopy(models)
    from distify import runtime

    runtime.init(backend="ddp")
    params = {id(p): p for m in models for p in m.parameters()}
    runtime.prepare(*models, torch.optim.SGD(params.values(), lr=0.1))
    x, y = runtime.split(cases.data(7, torch.float64))
    runtime.backward(runtime.mean(F.cross_entropy(models[0](x) + models[1](-x), y)))
    full = cases.data(7, torch.float64)
    F.cross_entropy(whole[0](full[0]) + whole[1](-full[0]), full[1]).backward()
    return max(
        (p.grad - q.grad).abs().max().item()
        for a, b in zip(models, whole, strict=True)
        for p, q in zip(a.parameters(), b.parameters(), strict=True)
    )


def test_parameters_of_two_models(pool2: Pool) -> None:
    assert max(pool2.run(shared)) < 1e-12


def raw_backward() -> None:
    model = Net().double()
    _runtime, x, y, _ = start(model)
    F.cross_entropy(model(x), y).backward()


def reentrant_later() -> None:
    """A backward that learned to send early meets a nested one: an error, not a wrong gradient."""
    from torch.utils.checkpoint import checkpoint

    model = nn.Linear(6, 6).double()
    runtime, x, _y, _ = start(model)
    x = x.clone().requires_grad_()
    for nested in (False, False, True):
        out = checkpoint(model, model(x), use_reentrant=True) if nested else model(model(x))
        runtime.backward(runtime.mean(out.pow(2).mean()))


@pytest.mark.parametrize(
    ("function", "message"),
    [(raw_backward, r"runtime.backward\(loss\)"), (reentrant_later, "use_reentrant=False")],
)
def test_what_can_t_be_reduced_is_an_error(function: Any, message: str, pool2: Pool) -> None:
    with pytest.raises(RankError, match=message):
        pool2.run(function)


def many_units() -> float:
    """More modules than bits in one word of the exchange."""
    models = [nn.Linear(6, 1).double() for _ in range(70)]
    whole = copy.deepcopy(models)
    runtime, x, _y, _ = start(*models)
    full, _ = cases.data(7, torch.float64)
    for k in (0, 69, 61):
        runtime.backward(runtime.mean(models[k](x).pow(2).mean()))
        whole[k](full).pow(2).mean().backward()
    assert [k for k, m in enumerate(models) if m.weight.grad is not None] == [0, 61, 69]
    return max((models[k].weight.grad - whole[k].weight.grad).abs().max().item() for k in (0, 61, 69))


def test_many_models(pool2: Pool) -> None:
    assert max(pool2.run(many_units)) < 1e-12


def hand_made_optimizer() -> float:
    """`p.data.add_(p.grad)` right after backward sees the global gradient."""
    torch.manual_seed(0)
    model = Net().double()
    from distify import runtime

    runtime.init(backend="ddp")
    runtime.prepare(model)
    x, y = runtime.split(cases.data(7, torch.float64))
    whole = copy.deepcopy(model)
    for m, r, rows in ((model, runtime, (x, y)), (whole, cases.Plain, cases.data(7, torch.float64))):
        for _ in range(3):
            m.zero_grad()
            r.backward(r.mean(F.cross_entropy(m(rows[0]), rows[1])))
            for p in m.parameters():
                if p.grad is not None:
                    p.data.add_(p.grad, alpha=-0.1)
    return max((p - q).abs().max().item() for p, q in zip(model.parameters(), whole.parameters(), strict=True))


def test_an_optimizer_made_by_hand(pool2: Pool) -> None:
    assert max(pool2.run(hand_made_optimizer)) < 1e-12


def frozen_after_the_forward(early: bool) -> float:
    """The critic is frozen around the generator's backward only."""
    torch.manual_seed(0)
    generator, critic = nn.Linear(6, 6).double(), nn.Linear(6, 1).double()
    whole = copy.deepcopy((generator, critic))
    runtime, x, _, _ = start(generator, critic)
    full, _ = cases.data(7, torch.float64)
    for k in range(3):
        for (g, c), r, rows in (((generator, critic), runtime, x), (whole, cases.Plain, full)):
            loss = r.mean(c(g(rows)).pow(2).mean())
            c.requires_grad_(k == 0 and not early)
            r.backward(loss)
            c.requires_grad_(True)
    pairs = zip((generator, critic), whole, strict=True)
    both = [(p.grad, q.grad) for a, b in pairs for p, q in zip(a.parameters(), b.parameters(), strict=True)]
    assert all((p is None) == (q is None) for p, q in both)
    return max((p - q).abs().max().item() for p, q in both if p is not None and q is not None)


def test_parameters_frozen_after_their_forward(pool2: Pool) -> None:
    assert max(pool2.run(frozen_after_the_forward, True)) < 1e-12
    assert max(pool2.run(frozen_after_the_forward, False)) < 1e-12


def made_later() -> None:
    model = Net().double()
    runtime, x, y, (optimizer,) = start(model)
    model.rare = nn.Linear(3, 3).double()
    optimizer.add_param_group({"params": model.rare.parameters()})
    runtime.backward(runtime.mean(F.cross_entropy(model(x, rare=True), y)))
    runtime.step(optimizer)


def test_parameters_made_after_prepare(pool2: Pool) -> None:
    with pytest.raises(RankError, match="made after"):
        pool2.run(made_later)
