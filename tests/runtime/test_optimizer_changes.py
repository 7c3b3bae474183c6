"""Optimizers that the script changes between steps: groups, members, state, and which gradients there are."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.pool import Pool, RankError
from tests.runtime.programs import Block, Original, batches, gap
from tests.runtime.test_checkpoint import BACKENDS, TOLERANCE


class Net(nn.Module):
    """Blocks of which one can be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(6) for _ in range(3))
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor, without: int = -1) -> Tensor:
        for k, block in enumerate(self.blocks):
            x = x if k == without else block(x)
        return self.head(x)


def build(r: Any, kind: Any, **options: Any) -> tuple[Net, torch.optim.Optimizer]:
    torch.manual_seed(0)
    m = Net()
    optimizer = kind([{"params": list(part.parameters())} for part in (*m.blocks, m.head)], lr=0.05, **options)
    r.prepare(m, optimizer)
    return m, optimizer


def zeroed(r: Any) -> Any:
    """Gradients that are zero, not `None`, let weight decay and momentum go on; also in the middle of adding up."""
    shown = []
    for kind, options in ((torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}), (torch.optim.AdamW, {})):
        m, optimizer = build(r, kind, **options)
        for step, batch in enumerate(batches(5)):
            x, y = r.split(batch)
            optimizer.zero_grad(set_to_none=False)
            r.backward(r.mean(F.cross_entropy(m(-x), y)))
            if step == 3:
                optimizer.zero_grad(False)
            r.backward(r.mean(F.cross_entropy(m(x, step - 2), y)))
            r.step(optimizer)
        shown.append([r.state_dict(m), r.state_dict(optimizer)])
    return shown


def cleared_in_part(r: Any) -> Any:
    """Between two backwards, by modules that were not prepared by themselves."""
    m, optimizer = build(r, torch.optim.SGD, momentum=0.9)
    shown = []
    for batch in batches(4):
        x, y = r.split(batch)
        r.backward(r.mean(F.cross_entropy(m(x), y)))
        m.blocks[1].zero_grad()
        r.backward(r.mean(F.cross_entropy(m(-x), y)))
        m.head.zero_grad(set_to_none=False)
        shown.append(r.clip_grad_norm_(m.parameters(), 0.3).item())
        r.step(optimizer)
        m.blocks.zero_grad()
        m.head.zero_grad()
    return shown, r.state_dict(m)


def fewer(r: Any) -> Any:
    """A group leaves the optimizer, then some parameters of another."""
    m, optimizer = build(r, torch.optim.SGD, momentum=0.9)
    for step, batch in enumerate(batches(6)):
        x, y = r.split(batch)
        m.zero_grad()
        r.backward(r.mean(F.cross_entropy(m(x), y)))
        r.step(optimizer)
        for k, group in enumerate(optimizer.param_groups):
            group["lr"] *= 0.5 + 0.1 * k
        if step == 1:
            optimizer.param_groups.pop(1)
        if step == 3:
            optimizer.param_groups[0]["params"] = optimizer.param_groups[0]["params"][3:]
    return r.state_dict(m)


def afresh(r: Any) -> Any:
    """State that is thrown away, in both ways of writing it."""
    m, optimizer = build(r, torch.optim.AdamW)
    for step, batch in enumerate(batches(6)):
        x, y = r.split(batch)
        optimizer.zero_grad()
        r.backward(r.mean(F.cross_entropy(m(x), y)))
        r.step(optimizer)
        if step == 1:
            optimizer.state = defaultdict(dict)
        if step == 3:
            optimizer.state.clear()
    return r.state_dict(m), r.state_dict(optimizer)


def nothing(r: Any) -> Any:
    """Steps before the first backward, and without one."""
    m, optimizer = build(r, torch.optim.AdamW)
    r.step(optimizer)
    for step, batch in enumerate(batches(4)):
        x, y = r.split(batch)
        optimizer.zero_grad()
        if step != 2:
            r.backward(r.mean(F.cross_entropy(m(x), y)))
        r.step(optimizer)
    return r.state_dict(m), r.state_dict(optimizer)


PROGRAMS = {f.__name__: f for f in (zeroed, cleared_in_part, fewer, afresh, nothing)}


def compared(backend: str) -> dict[str, dict[str, Any]]:
    from distify import runtime

    found = {}
    for name, program in PROGRAMS.items():
        expected = program(Original)
        runtime.init(**BACKENDS[backend])
        found[name] = gap(program(runtime), expected)
        runtime.shutdown()
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_equals_the_original(backend: str, pool2: Pool) -> None:
    for found in pool2.run(compared, backend):
        assert not {name: places for name, places in found.items() if len(places) > 1 or not places[""] <= TOLERANCE}


def changed(what: str) -> None:
    from distify import runtime

    runtime.init(**BACKENDS["zero2"])
    m, optimizer = build(runtime, torch.optim.AdamW)
    x, y = runtime.split(batches(1)[0])
    runtime.backward(runtime.mean(F.cross_entropy(m(x), y)))
    runtime.step(optimizer)
    if what == "state":
        optimizer.state[m.head.bias]["exp_avg"].mul_(0.5)
    elif what == "part":
        m.head.zero_grad()
    else:
        first, second = optimizer.param_groups[:2]
        second["params"].append(first["params"].pop())
        optimizer.zero_grad()
    runtime.backward(runtime.mean(F.cross_entropy(m(x), y)))
    runtime.step(optimizer)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("state", r"the state of AdamW was looked at.*runtime\.state_dict"),
        ("part", "the gradients of the step before were not cleared"),
        ("groups", "came into different groups"),
    ],
)
def test_what_flat_buffers_can_not_follow_is_refused(what: str, reason: str, pool2: Pool) -> None:
    with pytest.raises(RankError, match=reason) as error:
        pool2.run(changed, what)
    assert error.value.types == ["DistifyError"] * 2
