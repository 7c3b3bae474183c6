"""Normalisation under autocast with weights of the lower precision: the bits that its casts give, in one node."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from distify.runtime.backends import norms

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "layer": (lambda: nn.LayerNorm(48), (3, 5, 48)),
    "layer_no_bias": (lambda: nn.LayerNorm((5, 48), bias=False), (3, 5, 48)),
    "layer_bare": (lambda: nn.LayerNorm(48, elementwise_affine=False), (7, 48)),
    "group": (lambda: nn.GroupNorm(4, 16), (3, 16, 5, 6)),
    "group_bare": (lambda: nn.GroupNorm(4, 16, affine=False), (3, 16, 9)),
    "group_flat": (lambda: nn.GroupNorm(2, 16), (3, 16)),
}


@pytest.fixture(autouse=True)
def widening(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the CPU's autocast computed these layers in fp32, like a GPU's."""
    monkeypatch.setattr(norms, "WIDENING", ("cpu",))


def plain(module: Any, x: Tensor) -> Tensor:
    """What a GPU's autocast does."""
    weight, bias = (None if p is None else p.float() for p in (module.weight, module.bias))
    if isinstance(module, nn.LayerNorm):
        return F.layer_norm(x.float(), module.normalized_shape, weight, bias, module.eps)
    return F.group_norm(x.float(), module.num_groups, weight, bias, module.eps)


def pair(name: str, lower: torch.dtype, given: torch.dtype) -> tuple[list[Tensor], Tensor, list[Tensor], Tensor]:
    """Leaves and the result of a layer of ours; those of the plain one."""
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    ours = make().to(lower)
    for p in ours.parameters():
        nn.init.normal_(p)
    theirs = copy.deepcopy(ours)
    norms.join_casts(ours)
    x = torch.randn(shape).to(given).requires_grad_()
    y = x.detach().clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        found = ours(x)
    return [x, *ours.parameters()], found, [y, *theirs.parameters()], plain(theirs, y)


@pytest.mark.parametrize("given", ["lower", "fp32"])
@pytest.mark.parametrize("lower", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", LAYERS)
def test_values_and_gradients_are_those_of_the_casts(name: str, lower: torch.dtype, given: str) -> None:
    leaves, found, plain_leaves, wanted = pair(name, lower, lower if given == "lower" else torch.float32)
    assert found.dtype is wanted.dtype is torch.float32
    assert torch.equal(found, wanted)
    slope = torch.randn_like(found)
    for twice in (False, True):
        options: Any = {"retain_graph": True, "create_graph": twice}
        ours = torch.autograd.grad(found, leaves, slope, **options)
        theirs = torch.autograd.grad(wanted, plain_leaves, slope, **options)
        for a, b in zip(ours, theirs, strict=True):
            assert a.dtype is b.dtype
            assert torch.equal(a, b)
    options = {"allow_unused": True}
    for a, b in zip(
        torch.autograd.grad(sum(g.float().pow(2).sum() for g in ours), leaves, **options),
        torch.autograd.grad(sum(g.float().pow(2).sum() for g in theirs), plain_leaves, **options),
        strict=True,
    ):
        assert (a is None) is (b is None)
        assert a is None or torch.equal(a, b)


def held(function: Callable[[], Any]) -> int:
    """Bytes that a graph holds for its backward."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function()
    del result
    return sum(kept.values())


@pytest.mark.parametrize("name", ["layer", "group"])
def test_what_is_kept_for_the_backward_is_the_input_as_it_came(name: str) -> None:
    make, shape = LAYERS[name]
    layer, x = make().bfloat16(), torch.randn(100, *shape[1:]).bfloat16().requires_grad_()
    wide = held(lambda: plain(layer, x))
    norms.join_casts(layer)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = held(lambda: layer(x))
    assert narrow < 0.6 * wide
    assert narrow >= x.nbytes


def test_a_layer_that_autocast_would_leave_alone_is_left_alone() -> None:
    layer = nn.LayerNorm(8).bfloat16()
    norms.join_casts(layer)
    x = torch.randn(2, 8).bfloat16().requires_grad_()
    assert type(layer(x).grad_fn).__name__ == "NativeLayerNormBackward0"  # no autocast
    with torch.autocast("cpu", torch.bfloat16):
        assert type(nn.LayerNorm(8)(x.float()).grad_fn).__name__ == "NativeLayerNormBackward0"
        assert type(layer(x).grad_fn).__name__ == "_LayerBackward"


def test_a_layer_with_a_forward_of_its_own_keeps_it() -> None:
    class Own(nn.LayerNorm):
        def forward(self, input: Tensor) -> Tensor:
            return input

    layer = Own(8)
    norms.join_casts(layer)
    assert "forward" not in vars(layer)
