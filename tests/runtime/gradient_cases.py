"""Training steps written once and run twice: as the original on the whole batch, and with the runtime on slices.

A case is a function `case(r, model, x, y)` that computes losses and calls `r.backward`; `r` is either `Plain`, for
which every reduction is the identity, or the runtime. What a step then does to the weights must be the same. Cases
don't know the backend: gradients are seen through one SGD step of rate 1.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.runtime.gradient_losses import LOSSES as LOSSES
from tests.runtime.gradient_models import CLASSES as CLASSES
from tests.runtime.gradient_models import Case
from tests.runtime.gradient_models import Net as Net
from tests.runtime.gradient_models import Normed as Normed
from tests.runtime.gradient_models import Plain as Plain
from tests.runtime.gradient_terms import PENALTIES as PENALTIES
from tests.runtime.gradient_terms import TERMS as TERMS
from tests.runtime.gradient_terms import penalty as penalty


# --- programs of forwards and backwards ------------------------------------------------------------------------------
def two_pairs(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.mean(F.cross_entropy(m(x), y)))
    r.backward(r.mean(F.cross_entropy(m(-x), y)))


def two_forwards_two_backwards(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    a, b = r.mean(F.cross_entropy(m(x), y)), r.mean(F.cross_entropy(m(-x), y))
    r.backward(a)
    r.backward(b)


def retained(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    out = m(x)
    r.backward(r.mean(F.cross_entropy(out, y)), retain_graph=True)
    r.backward(r.mean(F.cross_entropy(out * 2, y)))


def retained_statistic(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    """The reduction of the first backward lies below that of the second."""
    each = m(x).pow(2).sum(1)
    level = r.mean(each.mean())
    r.backward(level, retain_graph=True)
    r.backward(r.mean((each / level).sqrt().mean()))


def method(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.mean(F.cross_entropy(m.encode(x), y)))  # type: ignore[operator]


def forward_by_name(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.mean(F.cross_entropy(m.forward(x), y)))


def unused(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.mean(F.cross_entropy(m(x), y)))
    r.backward(r.mean(F.cross_entropy(m(x, rare=False), y)))


def all_used(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.mean(F.cross_entropy(m(x, rare=True), y)))


def twice_in_one_graph(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.mean(F.cross_entropy(m(x) + m(-x), y)))


def checkpointed(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    from torch.utils.checkpoint import checkpoint

    out = checkpoint(lambda z: m(z), x, use_reentrant=False)
    r.backward(r.mean(F.cross_entropy(out, y)))


PROGRAMS: dict[str, Case] = {
    f.__name__: f
    for f in (
        two_pairs,
        two_forwards_two_backwards,
        retained,
        retained_statistic,
        method,
        forward_by_name,
        unused,
        all_used,
        twice_in_one_graph,
        checkpointed,
    )
}


# --- programs that need gradients, parameters or submodules by hand: whole parameters --------------------------------
def submodule(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.mean(F.cross_entropy(m.second(torch.tanh(m.first(x))), y)))  # type: ignore[operator]


def gradient_penalty(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    x = x.clone().requires_grad_()
    out = m(x)
    (g,) = r.grad(outputs=out, inputs=x, grad_outputs=torch.ones_like(out), create_graph=True, retain_graph=True)
    r.backward(r.mean(F.cross_entropy(out, y)) + r.mean(((g.norm(2, dim=1) - 1) ** 2).mean()))


def reduced_penalty(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    """The gradient of a reduced value with respect to the rows."""
    x = x.clone().requires_grad_()
    out = m(x)
    (g,) = r.grad(r.sum(out.sum()), x, create_graph=True)
    r.backward(r.mean(F.cross_entropy(out, y)) + r.mean(g.pow(2).sum(1).mean()))


def hand_made(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    """`grad` of the loss with respect to parameters, put into `.grad` by hand."""
    used = [p for n, p in m.named_parameters() if "rare" not in n]
    loss = r.mean(F.cross_entropy(m(x), y))
    for p, g in zip(used, r.grad(loss, used), strict=True):
        p.grad = g


def differentiated_twice(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    """The gradients, left in `.grad` with their graph, enter a second loss."""
    r.backward(r.mean(F.cross_entropy(m(x), y)), create_graph=True)
    grads = [p.grad for p in m.parameters() if p.grad is not None]
    size = sum((g.pow(2).sum() for g in grads), torch.zeros((), dtype=x.dtype))
    for p in m.parameters():
        p.grad = None
    r.backward(size)


def some_inputs(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.mean(F.cross_entropy(m(x), y)), inputs=list(m.second.parameters()))


def frozen_part(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    with r.frozen(m.first):
        r.backward(r.mean(F.cross_entropy(m(x), y)))
    r.backward(r.mean(m(x).pow(2).mean()))


def reentrant(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    from torch.utils.checkpoint import checkpoint

    x = x.clone().requires_grad_()
    for _ in range(2):
        out = checkpoint(m.second, torch.tanh(checkpoint(m.first, x, use_reentrant=True)), use_reentrant=True)
        r.backward(r.mean(F.cross_entropy(out + m.second(torch.tanh(m.first(-x))), y)))


WHOLE: dict[str, Case] = {
    f.__name__: f
    for f in (
        submodule,
        gradient_penalty,
        reduced_penalty,
        hand_made,
        differentiated_twice,
        some_inputs,
        frozen_part,
        reentrant,
    )
}


def normed(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.mean(F.cross_entropy(m(x), y)))


CASES: dict[str, Case] = {**LOSSES, **TERMS, **PENALTIES, **PROGRAMS, **WHOLE, "normed": normed}


def build(name: str, dtype: torch.dtype) -> nn.Module:
    """The model of a case, with the same weights wherever it is built."""
    torch.manual_seed(0)
    return (Normed() if name == "normed" else Net()).to(dtype)


def data(n: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A global batch of `n` rows."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(n, 6, generator=generator, dtype=torch.float64).to(dtype)
    return x, torch.randint(0, CLASSES, (n,), generator=generator)


def reference(name: str, n: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """The state after one SGD step of the original."""
    model, (x, y) = build(name, dtype), data(n, dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    CASES[name](Plain, model, x, y)
    optimizer.step()
    return {key: value.clone() for key, value in model.state_dict().items()}
