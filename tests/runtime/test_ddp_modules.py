"""What ddp does to modules: parameters of any kind, parts that are thawed, copies and pickles."""

from __future__ import annotations

import copy
import io
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.pool import Pool
from tests.runtime import gradient_cases as cases
from tests.runtime.gradient_cases import Net
from tests.runtime.test_ddp import start


class Kinds(nn.Module):
    """Parameters of several types and layouts, a sparse embedding, an empty one, and a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4, sparse=True)
        self.conv = nn.Conv2d(2, 2, (1, 2)).to(memory_format=torch.channels_last)
        self.single = nn.Linear(4, 3)
        self.brief = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        self.phase = nn.Parameter(torch.ones(2, dtype=torch.complex64))
        self.scale = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
        self.none = nn.Parameter(torch.empty(0))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.single(self.embed(y)) * self.brief.float() + self.conv(x.float().view(-1, 2, 1, 3)).flatten(1)[:, :3]
        return (h * (self.phase * (1 + 2j)).real.sum()).double() * self.scale + self.none.sum()


def kinds() -> float:
    torch.manual_seed(0)
    model = Kinds()
    whole = copy.deepcopy(model)
    runtime, x, y, _ = start(model)
    worst = 0.0
    for _ in range(3):
        runtime.backward(runtime.mean(model(x, y).pow(2).mean()))
        full = cases.data(7, torch.float64)
        whole(*full).pow(2).mean().backward()
        for (name, p), q in zip(model.named_parameters(), whole.parameters(), strict=True):
            assert p.grad is not None, name
            assert q.grad is not None
            assert p.grad.is_sparse == q.grad.is_sparse, name
            if p.numel():
                if not p.grad.is_sparse:
                    assert p.grad.stride() == p.stride(), name
                a, b = p.grad.to_dense(), q.grad.to_dense()
                worst = max(worst, ((a - b).abs().max() / b.abs().max()).item() / (1000 if name == "brief" else 1))
    return worst


def test_parameters_of_any_kind(pool2: Pool, pool3: Pool) -> None:
    assert max(pool2.run(kinds)) < 1e-5
    assert max(pool3.run(kinds)) < 1e-5


def thawed() -> list[float]:
    """Frozen at first: no traffic for it; thawed later: reduced."""
    torch.manual_seed(0)
    model = Net().double()
    model.first.requires_grad_(False)
    whole = copy.deepcopy(model)
    from distify import runtime

    runtime.init(backend="ddp")
    runtime.prepare(model, torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1))
    x, y = runtime.split(cases.data(7, torch.float64))
    found = []
    for trains in (False, True, False, True):
        for m in (model, whole):
            m.zero_grad()
            m.first.requires_grad_(trains)
        runtime.backward(runtime.mean(F.cross_entropy(model(x), y)))
        F.cross_entropy(whole(cases.data(7, torch.float64)[0]), cases.data(7, torch.float64)[1]).backward()
        assert (model.first.weight.grad is None) == (not trains)
        pairs = zip(model.parameters(), whole.parameters(), strict=True)
        found.append(max((p.grad - q.grad).abs().max().item() for p, q in pairs if q.grad is not None))
    return found


def test_frozen_parts_that_are_thawed(pool2: Pool) -> None:
    assert max(v for found in pool2.run(thawed) for v in found) < 1e-12


def pickled() -> list[Any]:
    """Copies and files of a prepared module know nothing of the runtime's hooks."""
    model = Net().double()
    runtime, x, y, _ = start(model)
    runtime.backward(runtime.mean(F.cross_entropy(model(x), y)))
    copied = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    found = [type(model) is Net, type(copied) is Net, type(loaded) is Net]
    for other in (copied, loaded):
        F.cross_entropy(other(x), y).backward()  # their gradients are their own
        found.append(list(other.state_dict()) == list(model.state_dict()))
    return found


def test_copies_and_pickles_are_free(pool2: Pool) -> None:
    assert all(all(found) for found in pool2.run(pickled))
