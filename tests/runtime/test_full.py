"""Whole parameters outside of a forward, and whole copies of models."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.pool import Pool
from tests.runtime.programs import Original, batches, gap, model, train
from tests.runtime.test_checkpoint import BACKENDS


def penalised(r: Any, form: str) -> Any:
    m = model()
    optimizer = torch.optim.SGD([p for n, p in m.named_parameters() if "unused" not in n], 0.1)
    r.prepare(m, optimizer)
    shown = []
    for batch in batches(3):
        x, y = r.split(batch)
        optimizer.zero_grad()
        loss = r.mean(F.cross_entropy(m(x), y))
        if form == "named":
            term = sum(p.norm() for n, p in r.full(m.named_parameters()) if "blocks" in n)
        elif form == "list":
            term = sum(p.abs().sum() for p in r.full(list(m.blocks.parameters())))
        elif form == "mapping":
            term = torch.stack([p.pow(2).sum() for p in r.full(dict(m.first.named_parameters())).values()]).sum().sqrt()
        else:
            term = r.full(m.head.weight).matmul(r.full(m.head.weight).t()).sum() + r.full(m.scale) ** 2
        r.backward(loss + 0.1 * term)
        r.step(optimizer)
        shown.append([loss.item(), term.item()])
    with torch.no_grad():
        shown.append([p.sum().item() for p in r.full(m.parameters())])
    return shown, r.state_dict(m)


FORMS = ("named", "list", "mapping", "tensor")


def all_forms(backend: str) -> dict[str, Any]:
    from distify import runtime

    found = {}
    for form in FORMS:
        expected = penalised(Original, form)
        runtime.init(**BACKENDS[backend])
        found[form] = gap(penalised(runtime, form), expected)
        runtime.shutdown()
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_penalties_over_whole_parameters(backend: str, pool2: Pool) -> None:
    for found in pool2.run(all_forms, backend):
        assert {form: len(places) for form, places in found.items()} == dict.fromkeys(FORMS, 1)
        assert max(places[""] for places in found.values()) <= 2e-5


def copies(backend: str) -> dict[str, Any]:
    """An EMA model and a best model, as scripts keep them."""

    def run(r: Any) -> Any:
        m = model()
        optimizer = torch.optim.SGD([p for n, p in m.named_parameters() if "unused" not in n], 0.1, momentum=0.9)
        r.prepare(m, optimizer)
        average, best = r.clone(m), None
        for k in range(3):
            train(r, m, optimizer, 1)
            with torch.no_grad():
                for mine, theirs in zip(average.parameters(), r.full(m.parameters())):
                    mine.mul_(0.9).add_(theirs, alpha=0.1)
            best = r.clone(m) if k == 1 else best
        assert best is not None
        again = copy.deepcopy(best)
        out = again(torch.ones(2, 6))
        return [dict(x.state_dict()) for x in (average, best, again)], out.detach(), best.training, out.requires_grad

    from distify import runtime

    expected = run(Original)
    runtime.init(**BACKENDS[backend])
    return gap(run(runtime), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_clones_are_whole_and_independent(backend: str, pool3: Pool) -> None:
    for found in pool3.run(copies, backend):
        assert len(found) == 1, found
        assert found[""] <= 2e-5
