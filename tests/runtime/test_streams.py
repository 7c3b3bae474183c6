"""Replicated streams outside, private ones inside; generators that nobody seeds."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from distify import runtime
from distify.runtime.state import state
from distify.runtime.streams import Streams, mix
from tests.pool import Pool


class Net(nn.Module):
    def __init__(self, fail: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.fail = fail

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = self.drop(torch.ones(64))
        if self.fail:
            raise ValueError("boom")
        return mask + self.linear(x).sum() * 0


def outside() -> tuple[float, ...]:
    return torch.rand(1).item(), random.random(), float(np.random.rand())


def draws(seed: int | None) -> dict[str, Any]:
    if seed is None:  # every rank starts with streams of its own, as a script that never seeds does
        torch.manual_seed(int(runtime.launcher.os.environ["RANK"]) + 50)
        random.seed(int(runtime.launcher.os.environ["RANK"]) + 50)
        np.random.seed(int(runtime.launcher.os.environ["RANK"]) + 50)
    runtime.init()
    if seed is not None:
        torch.manual_seed(seed)
    net, outer = Net(), nn.Sequential(Net(), nn.Identity())
    for module in (net, outer, outer[0]):
        state.streams.attach(module)
    seen, masks = [outside()], [net(torch.ones(4))]
    seen.append(outside())
    masks.append(net(torch.ones(4)))
    masks.append(outer(torch.ones(4)))
    seen.append(outside())
    net.fail = True
    with pytest.raises(ValueError, match="boom"):
        net(torch.ones(4))
    assert state.streams.depth == 0
    seen.append(outside())
    with state.streams.private():
        inside = torch.rand(1).item()
        with state.streams.replicated():
            seen.append(outside())
        again = torch.rand(1).item()
    seen.append(outside())
    return {"seen": seen, "masks": [m.tolist() for m in masks], "inside": (inside, again)}


@pytest.mark.parametrize("seed", [0, None])
def test_streams_agree_outside_and_differ_inside(seed: int | None, pool3: Pool) -> None:
    results = pool3.run(draws, seed)
    assert results[0]["seen"] == results[1]["seen"] == results[2]["seen"]
    for k in range(3):
        assert len({tuple(r["masks"][k]) for r in results}) == 3
    assert results[0]["masks"][0] != results[0]["masks"][1]
    inside = [x for r in results for x in r["inside"]]
    assert len(set(inside)) == 6


def same_as_original() -> Any:
    runtime.init()
    torch.manual_seed(7)
    state.streams.attach(Net())
    return outside()[0], torch.randn(5).tolist()


def test_replicated_stream_is_the_originals(pool2: Pool) -> None:
    torch.manual_seed(7)
    Net()
    expected = torch.rand(1).item(), torch.randn(5).tolist()
    assert pool2.run(same_as_original) == [expected, expected]


def reseeded() -> Any:
    runtime.init()
    made = []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        with state.streams.private():
            made.append(torch.rand(1).item())
    return made


def test_a_new_seed_gives_new_private_streams(pool2: Pool) -> None:
    one, two = pool2.run(reseeded)
    assert one[0] == one[2] != one[1]
    assert not set(one) & set(two)


def recomputed() -> None:
    runtime.init()
    torch.manual_seed(0)
    drop, linear = nn.Dropout(0.5), nn.Linear(64, 64)

    class Checkpointed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(lambda z: drop(linear(z)), x, use_reentrant=False)

    module = Checkpointed()
    state.streams.attach(module)
    out = module(torch.randn(8, 64, requires_grad=True))
    before = torch.get_rng_state()
    out.sum().backward()
    assert torch.allclose(linear.bias.grad, (out != 0).sum(0) * 2.0)
    assert torch.equal(before, torch.get_rng_state())


def test_checkpointing_recomputes_with_the_same_numbers(pool2: Pool) -> None:
    pool2.run(recomputed)


def compiled() -> None:
    runtime.init()
    torch.manual_seed(0)
    module = Net()
    module.forward = lambda x: module.drop(module.linear(x)).relu()
    module.compile(backend="eager", fullgraph=True)
    state.streams.attach(module)
    before = torch.get_rng_state()
    module(torch.ones(2, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert state.streams.depth == 0


def test_a_compiled_module_keeps_its_full_graph(pool2: Pool) -> None:
    pool2.run(compiled)


def compiled_outside() -> None:
    runtime.init()
    torch.manual_seed(0)
    module = Net()
    module.forward = lambda x: module.drop(module.linear(x)).relu()
    graph = torch.compile(module, backend="eager", fullgraph=True)
    state.streams.attach(graph)
    before = torch.get_rng_state()
    one, two = graph(torch.ones(2, 4)), graph(torch.ones(2, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(one, two)
    assert state.streams.depth == 0


def test_a_module_wrapped_by_compile(pool2: Pool) -> None:
    pool2.run(compiled_outside)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)

    def sample(self) -> float:
        return torch.rand(1).item()


def methods() -> Any:
    runtime.init()
    torch.manual_seed(0)
    module = Encoder()
    state.streams.attach(module)
    part = runtime.split(torch.ones(7, 4))
    mask = module.encode(part) != 0
    return mask.tolist(), module.sample(), torch.rand(1).item()


def test_a_method_drops_out_by_rank_and_samples_alike(pool2: Pool) -> None:
    (mask0, *one), (mask1, *two) = pool2.run(methods)
    assert one == two
    assert mask0[:3] != mask1


def copied() -> None:
    runtime.init()
    module = Net()
    state.streams.attach(module)
    twin = copy.deepcopy(module)
    again = pickle.loads(pickle.dumps(module))
    for made in (twin, again):
        before = torch.get_rng_state()
        made(torch.ones(4))
        assert torch.equal(before, torch.get_rng_state())


def test_a_module_with_streams_can_be_copied_and_pickled(pool2: Pool) -> None:
    pool2.run(copied)


def test_one_process_has_no_private_stream() -> None:
    streams = Streams()
    module = Net()
    streams.attach(module)
    assert not module._forward_pre_hooks
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    first = torch.rand(1)
    with streams.private(), streams.fetching():
        second = torch.rand(1)
    assert torch.equal(torch.cat([first, second, torch.rand(1)]), expected)


def unseeded() -> Any:
    runtime.init()
    if runtime.is_main():  # what one rank does elsewhere must not matter
        random.Random().random()
        np.random.default_rng()
    made = [random.Random().random() for _ in range(2)]
    made += [np.random.default_rng().random() for _ in range(2)]
    made.append(np.random.RandomState().rand())
    random.seed()
    made.append(random.random())
    np.random.seed()
    made.append(np.random.rand())
    torch.seed()
    made.append(torch.rand(1).item())
    return made


def test_generators_that_nobody_seeds_agree_on_all_ranks(pool2: Pool) -> None:
    one, two = pool2.run(unseeded)
    assert one == two
    assert len(set(one)) == len(one)
    again, _ = pool2.run(unseeded)
    assert not set(one) & set(again)  # the operating system's entropy still decides


def private_entropy() -> Any:
    runtime.init()
    with state.streams.private():
        return random.Random().random()


def test_entropy_differs_where_ranks_must(pool2: Pool) -> None:
    one, two = pool2.run(private_entropy)
    assert one != two


def test_mix_is_fixed() -> None:
    assert mix(0, 1) == 1534736266818221247
    assert len({mix(seed, rank) for seed in range(20) for rank in range(20)}) == 400
    assert all(0 <= mix(-1, k) < 2**63 for k in range(9))
