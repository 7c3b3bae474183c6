"""Parameters that the script changes itself: `whole`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from tests.pool import Pool, RankError
from tests.runtime.programs import Original, batches, gap, model
from tests.runtime.test_checkpoint import BACKENDS


def clamped(r: Any, m: Any, optimizer: Any, average: dict[str, Any]) -> Any:
    with r.whole(m):
        for p in m.parameters():
            p.data.clamp_(-0.2, 0.2)
        return [p.abs().max().item() for p in m.parameters()]


def averaged(r: Any, m: Any, optimizer: Any, average: dict[str, Any]) -> Any:
    """Averages of the weights, swapped in for an evaluation."""
    with r.whole(m):
        for name, p in m.named_parameters():
            average[name] = (0.9 * average.get(name, p.data) + 0.1 * p.data).clone()
    kept = {}
    with r.whole(m):
        for name, p in m.named_parameters():
            kept[name] = p.data
            p.data = average[name]
    with torch.no_grad():
        found = m(torch.ones(2, 6)).sum().item()
    with r.whole(m):
        for name, p in m.named_parameters():
            p.data = kept[name]
    return found


def shrunk(r: Any, m: Any, optimizer: Any, average: dict[str, Any]) -> Any:
    with r.whole(m):
        vector_to_parameters(parameters_to_vector(m.parameters()).detach() * 0.9, m.parameters())
    return []


def set_by_hand(r: Any, m: Any, optimizer: Any, average: dict[str, Any]) -> Any:
    """Part of one layer, in a block of its own module."""
    with torch.no_grad(), r.whole(m.blocks[1]):
        m.blocks[1].up.weight[0] = 0.5
        m.blocks[1].gain.copy_(torch.ones(6))
    with r.whole(m.first, m.tied):
        m.first.weight.data.mul_(0.5)
    return [m.tied.weight is m.first.weight]


def gradients(r: Any, m: Any, optimizer: Any, average: dict[str, Any]) -> Any:
    with r.whole(m, grads=True):
        norms = [p.grad.norm().item() for p in m.parameters() if p.grad is not None]
        for p in m.parameters():
            if p.grad is not None:
                p.grad.clamp_(-0.01, 0.01)
        m.head.bias.grad = None
        m.scale.grad = torch.tensor(0.3)
    with r.whole(m, grads=True):
        groups = [p.grad.sum().item() for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
    return [norms, groups, m.unused.weight.grad]


CHANGES = {f.__name__: f for f in (clamped, averaged, shrunk, set_by_hand, gradients)}


def changing(r: Any, name: str) -> Any:
    m = model()
    optimizer = torch.optim.SGD([p for n, p in m.named_parameters() if "unused" not in n], 0.1, momentum=0.9)
    r.prepare(m, optimizer)
    shown, average = [], dict[str, Any]()
    for batch in batches(4):
        x, y = r.split(batch)
        optimizer.zero_grad()
        loss = r.mean(F.cross_entropy(m(x), y))
        r.backward(loss)
        if name == "gradients":
            shown.append(CHANGES[name](r, m, optimizer, average))
        r.step(optimizer)
        if name != "gradients":
            shown.append(CHANGES[name](r, m, optimizer, average))
        shown.append(loss.item())
    return shown, r.state_dict(m)


def all_changes(backend: str) -> dict[str, Any]:
    from distify import runtime

    found = {}
    for name in CHANGES:
        expected = changing(Original, name)
        runtime.init(**BACKENDS[backend])
        found[name] = gap(changing(runtime, name), expected)
        runtime.shutdown()
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_changes_are_the_original_s(backend: str, pool2: Pool) -> None:
    for found in pool2.run(all_changes, backend):
        assert {name: list(places) for name, places in found.items()} == {key: [""] for key in CHANGES}


@pytest.mark.parametrize("backend", ["fsdp", "zero2"])
def test_changes_on_three_ranks(backend: str, pool3: Pool) -> None:
    for found in pool3.run(all_changes, backend):
        assert {name: list(places) for name, places in found.items()} == {key: [""] for key in CHANGES}


def misuse(backend: str, kind: str) -> None:
    from distify import runtime

    runtime.init(**BACKENDS[backend])
    m = model()
    optimizer = torch.optim.SGD([p for n, p in m.named_parameters() if "unused" not in n], 0.1)
    runtime.prepare(m, optimizer)
    try:
        if kind == "forward":
            with runtime.whole(m):
                m(torch.ones(2, 6))
        elif kind == "shape":
            with runtime.whole(m):
                m.head.weight.data = torch.zeros(2, 2)
        else:
            runtime.on_main(lambda: runtime.whole(m).__enter__())
    finally:
        runtime.shutdown()


@pytest.mark.parametrize(
    ("kind", "message"), [("forward", "called in a runtime.whole"), ("shape", "became one of"), ("alone", "all ranks")]
)
@pytest.mark.parametrize("backend", ["fsdp", "zero3"])
def test_misuse_is_refused(backend: str, kind: str, message: str, pool2: Pool) -> None:
    with pytest.raises(RankError, match=message):
        pool2.run(misuse, backend, kind)
