"""Compiled models: before `prepare`, after it, as a module of their own, or in a step that is compiled as a whole,
training equals the original's.

Graphs are made and run by autograd's own operators: what the code generator makes of them is none of our business.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.pool import Pool
from tests.runtime.programs import Original, batches, gap
from tests.runtime.test_fsdp import BLOCKS, GIVEN_BACK, TOGETHER, TOLERANCE, Layout
from tests.runtime.test_fsdp_groups import Chain, run

WAYS = ("before", "after", "wrapped")
# A way is about the call of the whole model, a layout about its blocks: one layout of each backend meets all ways.
CASES: dict[str, list[tuple[Layout, str]]] = {
    "ddp": [(BLOCKS, way) for way in WAYS],
    "fsdp": [*((BLOCKS, way) for way in WAYS), (TOGETHER, "before"), (GIVEN_BACK, "wrapped")],
    "deepspeed": [(BLOCKS, way) for way in WAYS],
}
# Rows of the batches. Each new size makes new graphs, and the second one those of any size, which costs most of the time:
# each layout and each way meets all sizes once.
SIZES, FEW = (7, 5, 2, 1), (7, 1)
ALL_SIZES = {"ddp": "before", "fsdp": "after", "deepspeed": "wrapped"}


def trained(r: Any, way: str, sizes: tuple[int, ...]) -> Any:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    m = Chain(lambda m, step, x: run(m, x, 0, 1), blocks=2)
    optimizer = torch.optim.AdamW(m.parameters(), 0.02)
    if way == "before":
        m.compile(backend="aot_eager")
    model: Any = torch.compile(m, backend="aot_eager") if way == "wrapped" else m
    r.prepare(m, optimizer)
    if way == "after":
        m.compile(backend="aot_eager")
    shown = []
    for step, batch in enumerate(batches(len(sizes), sizes)):
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
    expected = {sizes: trained(Original, "never", sizes) for sizes in (SIZES, FEW)}
    for layout, way in CASES[backend]:
        sizes = SIZES if layout != BLOCKS or way == ALL_SIZES[backend] else FEW
        fsdp_plan.BLOCK, fsdp_plan.KEEP, fsdp_plan.PARTS = layout
        runtime.init(backend=backend)
        found[f"{layout} {way}"] = gap(trained(runtime, way, sizes), expected[sizes])
        runtime.shutdown()
    return found


@pytest.mark.parametrize("backend", CASES)
def test_training_equals_the_original(backend: str, pool2: Pool) -> None:
    for found in pool2.run(compared, backend):
        assert len(found) == len(CASES[backend])
        assert not {name: places for name, places in found.items() if len(places) > 1 or not places[""] <= TOLERANCE}


def stepped(r: Any, compiles: bool) -> Any:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    optimizer = torch.optim.AdamW(m.parameters(), 0.02)
    r.prepare(m, optimizer)

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        optimizer.zero_grad()
        loss = r.mean(F.cross_entropy(m(x), y))
        r.backward(loss)
        norm = r.clip_grad_norm_(m.parameters(), 1.0)
        r.step(optimizer)
        return loss, norm

    if compiles:
        step = torch.compile(step, backend="aot_eager")
    shown = [[value.item() for value in step(*r.split(batch))] for batch in batches(3, (7, 5, 1))]
    assert bool(torch._dynamo.utils.counters["stats"]["unique_graphs"]) == compiles
    return shown, r.state_dict(m)


def compared_steps(options: dict[str, Any]) -> dict[str, Any]:
    from distify import runtime

    expected = stepped(Original, False)
    runtime.init(**options)
    found = gap(stepped(runtime, True), expected)
    runtime.shutdown()
    return found


@pytest.mark.parametrize("options", [{"backend": "ddp"}, {"backend": "fsdp"}, {"backend": "deepspeed"}], ids=str)
def test_a_step_that_is_compiled_as_a_whole(options: dict[str, Any], pool2: Pool) -> None:
    for found in pool2.run(compared_steps, options):
        assert list(found) == [""]
        assert found[""] <= TOLERANCE


@pytest.mark.parametrize("options", [{"backend": "ddp"}, {"backend": "deepspeed", "zero_stage": 2}], ids=str)
@pytest.mark.parametrize("way", ["before", "wrapped"])
def test_a_model_that_stays_whole_keeps_its_full_graph(options: dict[str, Any], way: str, pool2: Pool) -> None:
    pool2.run(full_graph, options, way)


def full_graph(options: dict[str, Any], way: str) -> None:
    from distify import runtime

    torch._dynamo.reset()
    runtime.init(**options)
    m = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(m.parameters(), 0.1)
    if way == "before":
        m.compile(backend="aot_eager", fullgraph=True)
    model: Any = torch.compile(m, backend="aot_eager", fullgraph=True) if way == "wrapped" else m
    runtime.prepare(model, optimizer)
    x, y = runtime.split(batches(1, (1,))[0])
    runtime.backward(runtime.mean(F.cross_entropy(model(x), y)))  # rank 1 has a row that does not count
    runtime.step(optimizer)
    assert all(bool(value.isfinite().all()) for value in runtime.state_dict(m).values())
    runtime.shutdown()
