"""Blocks that are gathered together: whichever of them run, in whatever order, training equals the original's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.pool import Pool
from tests.runtime.programs import Block, Original, batches, gap
from tests.runtime.test_fsdp import TOGETHER, TOLERANCE, start

Order = Callable[["Chain", int, Tensor], Tensor]


class Chain(nn.Module):
    """Blocks that `order` runs as it likes, given the number of the step."""

    def __init__(self, order: Order, blocks: int = 4) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(6) for _ in range(blocks))
        self.head = nn.Linear(6, 4)
        self.order = [order]  # no attribute: `prepare` looks at methods

    def forward(self, x: Tensor, step: int) -> Tensor:
        return self.head(self.order[0](self, step, x))


def run(m: Chain, x: Tensor, *places: int) -> Tensor:
    for place in places:
        x = m.blocks[place](x)
    return x


def recomputed(m: Chain, step: int, x: Tensor) -> Tensor:
    for block in m.blocks:
        x = checkpoint(block, x, use_reentrant=False) if step % 2 else block(x)
    return x


def some_recomputed(m: Chain, step: int, x: Tensor) -> Tensor:
    return checkpoint(m.blocks[2], m.blocks[1](x), use_reentrant=False)


ORDERS: dict[str, Order] = {
    "all": lambda m, step, x: run(m, x, 0, 1, 2, 3),
    "none at first": lambda m, step, x: run(m, x, 0, 1, 2, 3) if step else x,
    "some": lambda m, step, x: run(m, x, *((0, 1), (1, 2, 3), (3,), (0, 3))[step]),
    "back and forth": lambda m, step, x: run(m, x, 3, 1, 0, 2),
    "twice": lambda m, step, x: run(m, x, 0, 0, 1, 2, 3, 0),
    "two rounds": lambda m, step, x: run(m, run(m, x, 0, 1, 2, 3), 0, 1, 2, 3),
    "side by side": lambda m, step, x: run(m, x, 0) * run(m, x, 1) + run(m, x, 3),
    "a part of one": lambda m, step, x: run(m, m.blocks[1].up(x)[:, :6], 0, step),
    "recomputed": recomputed,
    "some recomputed": some_recomputed,
}


def trained(r: Any, order: Order) -> Any:
    """Four steps; between them a forward without gradients that ends early, and blocks that are called by themselves."""
    torch.manual_seed(0)
    m = Chain(order)
    optimizer = torch.optim.AdamW(m.parameters(), 0.02)
    r.prepare(m, optimizer)
    shown = []
    for step, batch in enumerate(batches(4)):
        x, y = r.split(batch)
        optimizer.zero_grad()
        with torch.no_grad():
            shown.append(r.mean(m.blocks[step](x).pow(2).mean()).item())  # by itself: the others don't run
            shown.append(r.mean(F.cross_entropy(m(x, step), y)).item())
        loss = r.mean(F.cross_entropy(m(x, step), y))
        r.backward(loss)
        shown.append(r.clip_grad_norm_(m.parameters(), 1.0).item())
        r.step(optimizer)
        shown.append(loss.item())
    return shown, r.state_dict(m), r.state_dict(optimizer)


def outside(r: Any, _: Order) -> Any:
    """Blocks that the loop runs itself; two forwards before one backward, of which the first runs a part."""
    torch.manual_seed(0)
    m = Chain(ORDERS["some"])
    optimizer = torch.optim.SGD(m.parameters(), 0.1)
    r.prepare(m, optimizer)
    shown = []
    for step, batch in enumerate(batches(4)):
        x, y = r.split(batch)
        optimizer.zero_grad()
        first = m(x, step)
        h = x
        for block in m.blocks:
            h = block(h)
        loss = r.mean(F.cross_entropy(first + m.head(h), y)) + r.mean(F.cross_entropy(m(h, 3 - step), y))
        r.backward(loss)
        r.step(optimizer)
        shown.append(loss.item())
    return shown, r.state_dict(m)


def compared(names: list[str]) -> dict[str, dict[str, Any]]:
    from torch.distributed.fsdp import FSDPModule

    from distify.runtime.backends.fsdp_tree import can_share

    found = {}
    for name in names:
        program = outside if name == "outside" else trained
        order = ORDERS.get(name, ORDERS["all"])
        expected = program(Original, order)
        runtime = start(TOGETHER)
        m = Chain(order)
        runtime.prepare(m)
        states = {block._get_fsdp_state() for block in m.blocks if isinstance(block, FSDPModule)}
        assert len(states) == (1 if can_share() else 4)
        found[name] = gap(program(runtime, order), expected)
        runtime.shutdown()
    return found


@pytest.mark.parametrize("ranks", [2, 3])
def test_training_equals_the_original(ranks: int, pool2: Pool, pool3: Pool) -> None:
    names = [*ORDERS, "outside"]
    for found in (pool2 if ranks == 2 else pool3).run(compared, names):
        assert list(found) == names
        assert not {name: places for name, places in found.items() if len(places) > 1 or not places[""] <= TOLERANCE}


def widths(*sizes: int) -> nn.ModuleDict:
    return nn.ModuleDict({f"stage{n}": nn.ModuleList(Block(n) for _ in range(6)) for n in sizes})


def grouped(root: nn.Module, **options: Any) -> list[int]:
    """Numbers of blocks in the groups that a plan makes, the root's left out."""
    from distify.runtime.backends.fsdp_plan import plan

    return [len(group.modules) for group in plan(root, False, **options).groups[:-1]]


def test_neighbours_are_grouped_up_to_a_size() -> None:
    one = sum(p.numel() for p in Block(16).parameters())
    assert grouped(widths(16), block=1, together=10**6) == [1, 1, 1, 1, 1, 1]  # four parts of 1.5 blocks
    assert grouped(widths(16), block=one // 2, together=10**6) == [2, 2, 2]
    assert grouped(widths(16), block=one, together=10**6) == [4, 2]
    assert grouped(widths(16), block=one, together=3 * one) == [3, 3]
    assert grouped(widths(16), block=one) == [1] * 6
    assert grouped(widths(16), block=one, together=10**6, reshard="always") == [1] * 6
    assert grouped(widths(8, 16), block=1, together=10**6) == [6, 1, 1, 1, 1, 1, 1]  # not across lists
