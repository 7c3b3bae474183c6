"""The fsdp backend: programs equal the original's, objects stay what they were, and what can't work says so."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.pool import Pool, RankError
from tests.runtime import programs
from tests.runtime.programs import PROGRAMS, Model, Original, autocast_steps, batches, gap, in_turn, model, train

TOLERANCE = 2e-5  # fp32
# Elements from which a block is gathered apart from the root, bytes up to which gathered parameters are kept for the
# backward, and groups of blocks that a model has at least.
Layout = tuple[int, int, int]
ROOT, BLOCKS, GIVEN_BACK, TOGETHER = (10**9, 2**31, 4), (0, 2**31, 10**9), (0, 0, 4), (0, 2**31, 1)


def start(layout: Layout = ROOT, **options: Any) -> Any:
    """A runtime with models cut in this way."""
    from distify import runtime
    from distify.runtime.backends import fsdp_plan

    fsdp_plan.BLOCK, fsdp_plan.KEEP, fsdp_plan.PARTS = layout
    runtime.init(backend="fsdp", **options)
    return runtime


def run_programs(names: list[str], layout: Layout) -> dict[str, dict[str, Any]]:
    found = {}
    for name in names:
        torch.manual_seed(0)
        expected = PROGRAMS[name](Original)
        torch.manual_seed(0)
        runtime = start(layout)
        try:
            found[name] = gap(PROGRAMS[name](runtime), expected)
        finally:
            runtime.shutdown()
    return found


@pytest.mark.parametrize(
    ("ranks", "layout", "names"),
    [
        (2, ROOT, tuple(PROGRAMS)),
        (3, BLOCKS, in_turn(0, 4)),
        (2, GIVEN_BACK, in_turn(1, 4)),
        (2, TOGETHER, in_turn(2, 4)),
        (3, TOGETHER, in_turn(3, 4)),
    ],
)
def test_programs_equal_the_original(
    ranks: int, layout: Layout, names: tuple[str, ...], pool2: Pool, pool3: Pool
) -> None:
    for found in (pool2 if ranks == 2 else pool3).run(run_programs, list(names), layout):
        wrong = {name: places for name, places in found.items() if len(places) > 1 or not places[""] <= TOLERANCE}
        assert not wrong
        assert list(found) == list(names)


def hand_written() -> list[float]:
    """Updates without an optimizer, in the three ways that scripts write them."""

    def update(r: Any, m: nn.Module, way: int) -> Any:
        velocity: dict[Any, Tensor] = {}
        for batch in batches(3):
            x, y = r.split(batch)
            for p in m.parameters():
                p.grad = None
            r.backward(r.mean(F.cross_entropy(m(x), y)))
            for p in m.parameters():
                if p.grad is None:
                    continue
                if way == 0:
                    p.data.add_(p.grad, alpha=-0.1)
                elif way == 1:
                    velocity[p] = 0.9 * velocity[p] + p.grad if p in velocity else p.grad.clone()
                    p.data = p.data - 0.1 * velocity[p]
                else:
                    with torch.no_grad():
                        p -= 0.1 * p.grad
        return r.state_dict(m)

    found = []
    for way in range(3):
        expected = update(Original, model(), way)
        runtime = start(BLOCKS)
        m = model()
        runtime.prepare(m)
        places = gap(update(runtime, m, way), expected)
        runtime.shutdown()
        found.append(places[""] if len(places) == 1 else math.inf)
    return found


def test_hand_written_updates(pool2: Pool) -> None:
    for found in pool2.run(hand_written):
        assert max(found) <= TOLERANCE


def objects() -> dict[str, Any]:
    runtime = start(BLOCKS)
    m, plain = model(), model()
    optimizer = torch.optim.AdamW(m.parameters(), 0.1)
    before, kind, keys = id(m), type(m).__name__, list(m.state_dict())
    numel = sum(p.numel() for p in m.parameters())
    runtime.prepare(m, optimizer)
    copied = copy.deepcopy(m)
    part = copy.deepcopy(m.blocks[1])
    found = {
        "same": id(m) == before and type(m).__name__ == kind and isinstance(m, Model),
        "printed": repr(m) == repr(plain),
        "keys": list(m.state_dict()) == keys == list(runtime.state_dict(m)),
        "numel": sum(p.numel() for p in m.parameters()) == numel,
        "groups": {id(p) for g in optimizer.param_groups for p in g["params"]} == {id(p) for p in m.parameters()},
        "copied": type(copied) is Model and gap(dict(copied.state_dict()), dict(plain.state_dict())),
        "part": type(part) is programs.Block and gap(dict(part.state_dict()), dict(plain.blocks[1].state_dict())),
        "to": m.to("cpu") is m and m.float() is m and m.blocks.cpu() is m.blocks,
        "method": all(type(p).__name__ != "Parameter" for p in _parameters_by_method(m)),
    }
    x = torch.ones(2, 6)
    found["forward"] = bool(torch.allclose(m(x), copied(x)))
    train(runtime, m, optimizer, 1)
    shown = [value for state in optimizer.state.values() for value in state.values()]
    train(runtime, m, optimizer, 1)  # the state is made once, not at each step
    found["state"] = all(a is b for a, b in zip(shown, (v for s in optimizer.state.values() for v in s.values())))
    found["independent"] = gap(dict(copied.state_dict()), dict(plain.state_dict()))
    try:
        pickle.dumps(m)
    except runtime.state.DistifyError as error:
        found["pickle"] = "runtime.save" in str(error)
    for name, part in (("double", m), ("part as double", m.blocks[1])):
        try:
            part.double()
        except runtime.state.DistifyError as error:
            found[name] = "runtime.clone" in str(error)
    return found


def _parameters_by_method(m: Any) -> list[Tensor]:
    """What a method that hands out parameters returns, between a forward and its backward."""
    m(torch.ones(1, 6))
    return [p for p in m.parameters() if p.dim()]


def test_objects_stay_what_they_were(pool2: Pool) -> None:
    for found in pool2.run(objects):
        same = {"": 0.0}
        assert found == {
            **dict.fromkeys(("same", "printed", "keys", "numel", "groups", "to", "method", "forward", "state"), True),
            **dict.fromkeys(("copied", "part", "independent"), same),
            **dict.fromkeys(("pickle", "double", "part as double"), True),
        }


def captured(what: str) -> str:
    runtime = start()
    m = model()
    held = list(m.parameters())
    name = [n for n, _ in m.named_parameters()]
    other = torch.optim.SGD(m.parameters(), 0.1)
    runtime.prepare(m, torch.optim.SGD(m.parameters(), 0.1))
    uses = {
        "grad": lambda: held[3].grad,
        "clip": lambda: nn.utils.clip_grad_norm_(held, 1.0),
        "step": lambda: other.zero_grad(),
        "add": lambda: held[3].data.add_(1.0),
    }
    try:
        uses[what]()
    except runtime.state.DistifyError as error:
        return f"{type(error).__name__}: {name[3] in str(error) or 'Model.' in str(error)}"
    return "no error"


@pytest.mark.parametrize("what", ["grad", "clip", "step", "add"])
def test_parameters_captured_before_are_named_when_used(what: str, pool2: Pool) -> None:
    assert pool2.run(captured, what) == ["ReplacedParameter: True"] * 2


class Lion(torch.optim.Optimizer):
    """A hand-written element-wise optimizer."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    m = self.state[p].setdefault("m", torch.zeros_like(p))
                    p.add_((0.9 * m + 0.1 * p.grad).sign(), alpha=-group["lr"])
                    m.mul_(0.99).add_(p.grad, alpha=0.01)


class Marked(Lion):
    elementwise = True


class Wrapper(torch.optim.Optimizer):
    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, {})
        self.inner = inner


def refused(kind: str) -> str:
    runtime = start()
    m = model()
    p = list(m.parameters())
    made = {
        "lbfgs": lambda: torch.optim.LBFGS(p),
        "adafactor": lambda: torch.optim.Adafactor(p),
        "lion": lambda: Lion(p, 0.1),
        "wrapper": lambda: Wrapper(torch.optim.SGD(p, 0.1)),
    }[kind]()
    try:
        runtime.prepare(m, made)
    except runtime.state.DistifyError as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("lbfgs", "one vector"),
        ("adafactor", "elementwise = True"),
        ("lion", "elementwise = True"),
        ("wrapper", "'inner'"),
    ],
)
def test_optimizers_that_need_whole_parameters_are_refused(kind: str, reason: str, pool2: Pool) -> None:
    for found in pool2.run(refused, kind):
        assert reason in found
        assert "backend='ddp'" in found


def marked() -> dict[str, Any]:
    expected = model()
    optimizer: Any = Marked([p for p in expected.parameters() if p.requires_grad], 0.01)
    train(Original, expected, optimizer)
    runtime = start(BLOCKS)
    m = model()
    optimizer = Marked([p for p in m.parameters() if p.requires_grad], 0.01)
    runtime.prepare(m, optimizer)
    train(runtime, m, optimizer)
    return gap(runtime.state_dict(m), dict(expected.state_dict()))


def test_an_optimizer_that_says_it_is_element_wise(pool2: Pool) -> None:
    for found in pool2.run(marked):
        assert len(found) == 1
        assert found[""] <= TOLERANCE


def alone() -> str:
    runtime = start()
    m = model()
    runtime.prepare(m, torch.optim.SGD(m.parameters(), 0.1))
    try:
        runtime.on_main(lambda: m(torch.ones(1, 6)))
    except runtime.state.DistifyError as error:
        return str(error)
    return "no error"


def test_a_forward_on_one_rank_is_an_error_and_no_hang(pool2: Pool) -> None:
    assert all("on_main" in found or "guarded block" in found for found in pool2.run(alone))


def in_precision(backend: str, precision: str) -> Any:
    runtime = start(BLOCKS) if backend == "fsdp" else __import__("distify.runtime").runtime
    runtime.shutdown()
    runtime.init(backend=backend, precision=precision)
    return autocast_steps(runtime, 4)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_reduced_precision_computes_what_autocast_over_whole_weights_does(precision: str, pool2: Pool) -> None:
    expected = pool2.run(in_precision, "ddp", precision)
    for found, wanted in zip(pool2.run(in_precision, "fsdp", precision), expected, strict=True):
        places = gap(found, wanted)
        assert len(places) == 1
        assert places[""] <= 1e-4


def skipped_micro_batch() -> dict[str, Any]:
    """`zero_grad` in the middle of a window drops what the window holds so far."""
    data = batches(4, (4, 2))

    def window(r: Any, m: nn.Module, optimizer: Any) -> None:
        for k, batch in enumerate(data):
            x, y = r.split(batch)
            with r.accumulate(last=k % 2 == 1) as now:
                if now.starts:
                    optimizer.zero_grad()
                r.backward(r.mean(F.cross_entropy(m(x), y)))
                if k == 2:
                    optimizer.zero_grad()
                if now.ends:
                    r.step(optimizer)

    runtime = start(BLOCKS, accumulate=2)
    m = model()
    optimizer = torch.optim.SGD(m.parameters(), 0.1)
    runtime.prepare(m, optimizer)
    window(runtime, m, optimizer)
    expected = model()
    sgd = torch.optim.SGD(expected.parameters(), 0.1)
    for k in (0, 1):
        sgd.zero_grad()
        for x, y in data[2 * k : 2 * k + 2]:
            if (k, len(y)) != (1, 4):  # the micro-batch that was dropped
                (F.cross_entropy(expected(x), y) * len(y) / 6).backward()
        sgd.step()
    return gap(runtime.state_dict(m), dict(expected.state_dict()))


def test_zero_grad_inside_a_window(pool2: Pool) -> None:
    for found in pool2.run(skipped_micro_batch):
        assert len(found) == 1
        assert found[""] <= TOLERANCE


def test_the_plan_of_a_model() -> None:
    from distify.runtime.backends.fsdp_plan import plan

    m = model(width=24)
    small = plan(m, reduced=False)
    assert [g.modules for g in small.groups] == [(m,)]
    assert small.whole == [m.scale]  # fully_shard takes no scalar
    large = plan(m, reduced=True, block=0)
    assert [g.modules for g in large.groups] == [(one,) for one in (*m.blocks, m)]
    assert {id(p) for p in large.whole} >= {id(b.gain) for b in m.blocks} | {id(m.blocks[0].norm.weight)}
    assert all(g.cast for g in large.groups)
    tied = nn.ModuleList(programs.Block(6) for _ in range(2))
    tied[1].up.weight = tied[0].up.weight
    assert [g.modules for g in plan(tied, reduced=False, block=0).groups] == [(tied,)]


def test_small_blocks_that_one_module_runs_are_one_group() -> None:
    from distify.runtime.backends.fsdp_plan import plan

    def stage(width: int) -> nn.Sequential:
        return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(3)))

    model = nn.ModuleDict({"tiny": stage(2), "small": stage(16), "large": stage(64)})
    small, large = model["small"], model["large"]
    groups = plan(model, reduced=False, block=500).groups
    assert [g.modules for g in groups] == [(one,) for one in (small, *large, model)]  # type: ignore[misc]
    model["small"][0][0].weight = model["tiny"][0][0].weight  # type: ignore[index, union-attr]
    groups = plan(model, reduced=False, block=500).groups
    assert [g.modules for g in groups] == [(one,) for one in (*large, model)]  # type: ignore[misc]


def test_gathered_parameters_are_kept_where_memory_allows() -> None:
    from distify.runtime.backends.fsdp_plan import plan

    model = nn.Linear(1024, 1024, bias=False)  # 4 MiB; 8 MiB of a rank's parts and state with two ranks
    megabyte = 2**20
    assert plan(model, False, free=25 * megabyte, ranks=2).keep  # half of it is for activations
    assert not plan(model, False, free=23 * megabyte, ranks=2).keep
    assert plan(model, True, free=21 * megabyte, ranks=2).keep  # 2 MiB when gathered
    assert plan(model, False, free=13 * megabyte, ranks=8).keep
    assert plan(model, False, free=0, ranks=2, reshard="never").keep
    assert not plan(model, False, free=2**40, ranks=2, reshard="always").keep
    assert plan(model, False).keep


def test_errors_name_the_remedy_on_every_rank(pool2: Pool) -> None:
    with pytest.raises(RankError) as error:
        pool2.run(twice_differentiable)
    assert error.value.types == ["DistifyError"] * 2
    assert "runtime.grad" in error.value.messages[0]


def twice_differentiable() -> None:
    runtime = start()
    m = model()
    runtime.prepare(m, torch.optim.SGD(m.parameters(), 0.1))
    x, y = runtime.split(batches(1)[0])
    runtime.backward(runtime.mean(F.cross_entropy(m(x), y)), create_graph=True)
