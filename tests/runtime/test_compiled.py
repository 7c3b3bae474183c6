"""Compiled models: before `prepare`, after it, or as a module of their own, training equals the original's.

Graphs are made and run by autograd's own operators: what the code generator makes of them is none of our business.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.pool import Pool
from tests.runtime.programs import Original, batches, gap
from tests.runtime.test_fsdp import BLOCKS, GIVEN_BACK, TOGETHER, TOLERANCE, Layout
from tests.runtime.test_fsdp_groups import ORDERS, Chain

WAYS = ("before", "after", "wrapped")
LAYOUTS: dict[str, list[Layout]] = {"ddp": [BLOCKS], "fsdp": [BLOCKS, TOGETHER, GIVEN_BACK], "deepspeed": [BLOCKS]}


def trained(r: Any, way: str) -> Any:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    m = Chain(ORDERS["all"])
    optimizer = torch.optim.AdamW(m.parameters(), 0.02)
    if way == "before":
        m.compile(backend="aot_eager")
    model: Any = torch.compile(m, backend="aot_eager") if way == "wrapped" else m
    r.prepare(m, optimizer)
    if way == "after":
        m.compile(backend="aot_eager")
    shown = []
    for step, batch in enumerate(batches(4)):
        x, y = r.split(batch)
        optimizer.zero_grad()
        loss = r.mean(F.cross_entropy(model(x, step), y))
        r.backward(loss)
        shown.append(r.clip_grad_norm_(m.parameters(), 1.0).item())
        r.step(optimizer)
        shown.append(loss.item())
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert bool(graphs) == (way != "never")
    return shown, r.state_dict(m)


def compared(backend: str) -> dict[str, dict[str, Any]]:
    from distify import runtime
    from distify.runtime.backends import fsdp_plan

    found = {}
    expected = trained(Original, "never")
    for layout in LAYOUTS[backend]:
        for way in WAYS:
            fsdp_plan.BLOCK, fsdp_plan.KEEP, fsdp_plan.PARTS = layout
            runtime.init(backend=backend)
            found[f"{layout} {way}"] = gap(trained(runtime, way), expected)
            runtime.shutdown()
    return found


@pytest.mark.parametrize("backend", LAYOUTS)
def test_training_equals_the_original(backend: str, pool2: Pool) -> None:
    for found in pool2.run(compared, backend):
        assert len(found) == len(WAYS) * len(LAYOUTS[backend])
        assert not {name: places for name, places in found.items() if len(places) > 1 or not places[""] <= TOLERANCE}
