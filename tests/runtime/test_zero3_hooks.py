"""The short ways around modules of ZeRO 3: the numbers of DeepSpeed's, and what they spare."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.pool import Pool

BLOCKS = 3


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
        return y


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(16, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(BLOCKS))
        self.head = nn.Linear(width, 16, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: Tensor) -> Tensor:
        h = self.words(x)
        for block in self.blocks:
            h = block(h)
        y: Tensor = self.head(h)
        return y


def nodes(value: Tensor) -> Counter[str]:
    """The graph that a value has, by kind of node."""
    found, seen, todo = Counter[str](), set(), [value.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            found[type(node).__name__] += 1
            todo += [following for following, _ in node.next_functions]
    return found


def trained(width: int, short: bool, precision: str = "bf16") -> Any:
    """Losses and weights of some steps; the graph's nodes and DeepSpeed's own gatherings in the last."""
    from distify import runtime
    from distify.runtime.backends import norms, zero3

    kept = zero3.shorten, norms.WIDENING
    norms.WIDENING = ("cpu",)
    if not short:
        zero3.shorten = lambda offload: None
    try:
        runtime.init(backend="deepspeed", zero_stage=3, precision=precision)
        torch.manual_seed(0)
        net = Net(width)
        optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
        runtime.prepare(net, optimizer)
        losses, graph, gatherings = [], Counter[str](), 0
        for step in range(5):
            x = runtime.split(torch.randint(16, (4, 6)))
            optimizer.zero_grad()
            coordinator = _coordinator()
            own, calls = type(coordinator).fetch_sub_module, []
            coordinator.fetch_sub_module = lambda *a, own=own, calls=calls, c=coordinator, **o: (
                calls.append(a),
                own(c, *a, **o),
            )
            if step == 3:  # goes another way than the steps before and after
                with torch.no_grad(), runtime.autocast():
                    net.blocks[1](net.words(x))
            with runtime.autocast():
                logits = net(x)
                loss = runtime.mean(F.cross_entropy(logits.flatten(0, 1), x.flatten()))
            graph = nodes(loss)
            runtime.backward(loss)
            runtime.clip_grad_norm_(net.parameters(), 1.0)
            runtime.step(optimizer)
            losses.append(loss.item())
            del coordinator.fetch_sub_module
            gatherings = len(calls) if step == 2 else gatherings
        return losses, {k: v.clone() for k, v in runtime.state_dict(net).items()}, graph, gatherings
    finally:
        zero3.shorten, norms.WIDENING = kept


def _coordinator() -> Any:
    from distify.runtime.state import state

    backend: Any = state.backend
    return backend.engines[0].zero.parameter_offload.get_param_coordinator()


@pytest.mark.parametrize("width", [8, 320])  # at 320 some parameters are given back between uses
def test_short_ways_give_the_bits_of_deepspeed_s(width: int, pool2: Pool) -> None:
    ours, theirs = pool2.run(trained, width, True), pool2.run(trained, width, False)
    for (losses, weights, _, fewer), (wanted, others, _, more) in zip(ours, theirs, strict=True):
        assert losses == wanted
        assert all(torch.equal(weights[name], others[name]) for name in others)
        assert more == 2 * (3 + 4 * BLOCKS)  # before the forward and the backward of each module
        # The whole model looks ahead, and each module waits once for what is on its way.
        assert fewer <= 2 + 2 * BLOCKS * (width > 100)


def test_layers_take_one_node_each(pool2: Pool) -> None:
    for _, _, graph, _ in pool2.run(trained, 8, True):
        assert graph["_LayerBackward"] == BLOCKS
        assert graph["_LinearBackward"] == 2 * BLOCKS
        assert graph["ToCopyBackward0"] <= BLOCKS + 1  # what norms made in fp32 goes into a product; the loss
        assert graph["ViewBackward0"] <= 2


def test_linear_is_deepspeed_s_to_the_bit() -> None:
    from importlib import import_module

    from distify.runtime.backends.zero3_linear import linear

    theirs = import_module("deepspeed.runtime.zero.linear").zero3_linear_wrap

    def flat(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        made: Tensor = theirs(x.flatten(0, -2), weight, bias)
        return made.view(*x.shape[:-1], weight.size(0))

    for dtype in (torch.float32, torch.bfloat16):
        for shape in ((5, 8), (3, 5, 8), (2, 3, 5, 8), (0, 5, 8)):
            torch.manual_seed(0)
            inputs = [torch.randn(s).to(dtype).requires_grad_() for s in (shape, (4, 8), (4,))]
            found, wanted = linear(theirs, *inputs), flat(*inputs)
            assert type(found.grad_fn).__name__ == "_LinearBackward"
            assert torch.equal(found, wanted)
            slope = torch.randn_like(found)
            for inside in (False, True):
                with torch.autocast("cpu", torch.bfloat16, enabled=inside):
                    a = torch.autograd.grad(found, inputs, slope, create_graph=True)
                b = torch.autograd.grad(wanted, inputs, slope, create_graph=True)
                assert all(torch.equal(g, h) and g.dtype is h.dtype for g, h in zip(a, b, strict=True))
            again = [torch.autograd.grad(sum(g.pow(2).sum() for g in grads), inputs[:2]) for grads in (a, b)]
            assert all(torch.equal(g, h) for g, h in zip(*again, strict=True))
