"""Training steps written once and run twice: as the original on the whole batch, and with the runtime on slices.

A case is a function `case(r, model, x, y)` that computes losses and calls `r.backward`; `r` is either `Plain`, for
which every reduction is the identity, or the runtime. What a step then does to the weights must be the same. Cases
don't know the backend: gradients are seen through one SGD step of rate 1.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CLASSES = 3
Case = Callable[[Any, nn.Module, Tensor, Tensor], Any]


class Plain:
    """The original: one process, the whole batch."""

    @staticmethod
    def mean(x: Any, by: Any = None, of: Any = None) -> Any:
        return x

    @staticmethod
    def sum(x: Any, of: Any = None) -> Any:
        return x

    max = min = sum

    @staticmethod
    def gather(x: Any, dim: int = 0, of: Any = None) -> Any:
        return x

    @staticmethod
    def backward(loss: Tensor, **options: Any) -> None:
        loss.backward(**options)

    grad = staticmethod(torch.autograd.grad)

    @staticmethod
    def full(parameter: Any) -> Any:
        return parameter

    @staticmethod
    @contextmanager
    def frozen(*modules: nn.Module) -> Any:
        for m in modules:
            m.requires_grad_(False)
        yield
        for m in modules:
            m.requires_grad_(True)

    autocast = staticmethod(nullcontext)


class Net(nn.Module):
    """Two layers, a method beside `forward`, and a part that most cases do not use."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, CLASSES)
        self.rare = nn.Linear(CLASSES, CLASSES)

    def forward(self, x: Tensor, rare: bool = False) -> Tensor:
        out = self.encode(x)
        return self.rare(out) if rare else out

    def encode(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x)))


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(24, 8)
        self.flat = nn.BatchNorm1d(8, momentum=None)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.conv(x.view(-1, 1, 2, 3))).relu().flatten(1)
        return self.out(torch.tanh(self.flat(self.head(h))))


def rows(x: Tensor) -> Tensor:
    """Positive numbers that differ by row, taken from the inputs (so that they follow the rows into slices)."""
    return x[:, 0].abs() + 0.5


# --- the losses of torch.nn.functional: value and divisor ------------------------------------------------------------
WEIGHT = (0.2, 1.0, 3.0)


def _losses() -> dict[str, Case]:
    def simple(loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Case:
        """Divides by rows, or by elements where each row has as many."""
        return lambda r, m, x, y: r.backward(r.mean(loss(m(x), x, y)))

    def weight(x: Tensor) -> Tensor:
        return torch.tensor(WEIGHT, dtype=x.dtype)

    def some_ignored(y: Tensor) -> Tensor:
        return torch.where(y == 2, -100, y)

    def signs(y: Tensor, x: Tensor) -> Tensor:
        return torch.where(y == 1, -1.0, 1.0).to(x.dtype)

    def one_hot(y: Tensor, x: Tensor) -> Tensor:
        return F.one_hot(y, CLASSES).to(x.dtype)

    def spread(x: Tensor) -> Tensor:
        return x[:, :CLASSES].softmax(1)

    def labels(y: Tensor) -> Tensor:
        return torch.stack([y, torch.full_like(y, -1), torch.full_like(y, -1)], 1)

    def cross_entropy_weighted(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
        w = weight(x)
        r.backward(r.mean(F.cross_entropy(m(x), y, weight=w), by=w[y].sum()))

    def cross_entropy_ignored(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
        t = some_ignored(y)
        r.backward(r.mean(F.cross_entropy(m(x), t), by=(t != -100).sum()))

    def cross_entropy_all(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
        w, t = weight(x), some_ignored(y)
        by = w[t.clamp(min=0)][t != -100].sum()
        r.backward(r.mean(F.cross_entropy(m(x), t, weight=w, label_smoothing=0.1), by=by))

    def nll_weighted(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
        w = weight(x)
        r.backward(r.mean(F.nll_loss(m(x).log_softmax(1), y, w), by=float(w[y].sum())))

    def masked(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
        mask = (y != 2).to(x.dtype)
        loss = (F.cross_entropy(m(x), y, reduction="none") * mask).sum() / mask.sum()
        r.backward(r.mean(loss, by=mask.sum()))

    def masked_as_sums(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
        mask = (y != 2).to(x.dtype)
        top = r.sum((F.cross_entropy(m(x), y, reduction="none") * mask).sum())
        r.backward(top / r.sum(mask.sum()).clamp(min=1))

    return {
        "cross_entropy": simple(lambda o, x, y: F.cross_entropy(o, y)),
        "cross_entropy_smooth": simple(lambda o, x, y: F.cross_entropy(o, y, label_smoothing=0.2)),
        "cross_entropy_soft": simple(lambda o, x, y: F.cross_entropy(o, spread(x))),
        "cross_entropy_none": simple(lambda o, x, y: F.cross_entropy(o, y, reduction="none").mean()),
        "cross_entropy_weighted": cross_entropy_weighted,
        "cross_entropy_ignored": cross_entropy_ignored,
        "cross_entropy_all": cross_entropy_all,
        "nll": simple(lambda o, x, y: F.nll_loss(o.log_softmax(1), y)),
        "nll_weighted": nll_weighted,
        "mse": simple(lambda o, x, y: F.mse_loss(o, spread(x))),
        "l1": simple(lambda o, x, y: F.l1_loss(o, spread(x))),
        "smooth_l1": simple(lambda o, x, y: F.smooth_l1_loss(o, spread(x))),
        "huber": simple(lambda o, x, y: F.huber_loss(o, spread(x), delta=0.5)),
        "bce": simple(lambda o, x, y: F.binary_cross_entropy(o.sigmoid(), spread(x))),
        "bce_logits": simple(
            lambda o, x, y: F.binary_cross_entropy_with_logits(o, one_hot(y, x), pos_weight=weight(x))
        ),
        "kl_mean": simple(lambda o, x, y: F.kl_div(o.log_softmax(1), spread(x), reduction="mean")),
        "kl_batchmean": simple(lambda o, x, y: F.kl_div(o.log_softmax(1), spread(x), reduction="batchmean")),
        "poisson": simple(lambda o, x, y: F.poisson_nll_loss(o, one_hot(y, x))),
        "gaussian": simple(lambda o, x, y: F.gaussian_nll_loss(o, spread(x), rows(x)[:, None])),
        "hinge_embedding": simple(lambda o, x, y: F.hinge_embedding_loss(o[:, 0], signs(y, x))),
        "margin_ranking": simple(lambda o, x, y: F.margin_ranking_loss(o[:, 0], o[:, 1], signs(y, x), margin=0.1)),
        "cosine_embedding": simple(lambda o, x, y: F.cosine_embedding_loss(o, spread(x), signs(y, x))),
        "triplet": simple(lambda o, x, y: F.triplet_margin_loss(o, spread(x), x[:, 3:])),
        "multi_margin": simple(lambda o, x, y: F.multi_margin_loss(o, y)),
        "multilabel_margin": simple(lambda o, x, y: F.multilabel_margin_loss(o, labels(y))),
        "soft_margin": simple(lambda o, x, y: F.soft_margin_loss(o[:, 0], signs(y, x))),
        "multilabel_soft": simple(lambda o, x, y: F.multilabel_soft_margin_loss(o, one_hot(y, x), weight(x))),
        "masked": masked,
        "masked_as_sums": masked_as_sums,
        "sum": lambda r, m, x, y: r.backward(r.sum(F.cross_entropy(m(x), y, reduction="sum"))),
        "mean_of_outputs": simple(lambda o, x, y: o.mean()),
        "norm": simple(lambda o, x, y: (o - x[:, :3]).norm(dim=1).mean()),
    }


LOSSES = _losses()


# --- sums of terms, losses that are no plain mean --------------------------------------------------------------------
def vae(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    out = m(x)
    rec = r.sum(F.mse_loss(out, x[:, :3], reduction="sum"))
    kld = r.sum(-0.5 * torch.sum(1 + out - out.pow(2) - out.exp()))
    r.backward(rec + 0.1 * kld)


def sum_and_mean(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.sum(m(x).pow(2).sum()) + 5 * r.mean(m(x).abs().mean()))


def rmse(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(torch.sqrt(r.mean(F.mse_loss(m(x), x[:, :3]))))


def dice(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    p, t = m(x).sigmoid(), F.one_hot(y, CLASSES).to(x.dtype)
    top, bottom = r.sum((p * t).sum(0)), r.sum(p.sum(0)) + r.sum(t.sum(0))
    r.backward(1 - ((2 * top + 1) / (bottom + 1)).mean())


def by_batch_statistic(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    """A reduced value flows back into the rows, which are reduced again."""
    each = (m(x) - x[:, :3]).pow(2).sum(1)
    level = r.mean(each.mean())
    spread = r.mean((each - level).pow(2).mean()).sqrt()
    r.backward(r.mean(((each - level) / spread).abs().pow(1.5).mean()) + level)


def extremes(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    out = m(x)
    high, low = r.max(out.max()), r.min(out.amin(0))
    r.backward(r.mean(((out - low) / (high - low)).pow(2).mean()) + high * 0.3)


def contrastive(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    """In-batch negatives: every row against all."""
    a, b = F.normalize(m(x), dim=1), F.normalize(m(-x), dim=1)
    a, b = r.gather(a), r.gather(b)
    r.backward(F.cross_entropy(a @ b.t() / 0.3, torch.arange(len(a))))


def half_gathered(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    """Own rows against all: what is gathered flows back into rows."""
    a, b = F.normalize(m(x), dim=1), F.normalize(m(-x), dim=1)
    r.backward(r.mean(torch.logsumexp(a @ r.gather(b).t(), 1).mean()))


def local_constant(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    """A term that some slices don't have: there it is a constant without graph."""
    keep = y == 0
    term = m(x[keep]).pow(2).sum() if keep.any() else torch.zeros((), dtype=x.dtype)
    r.backward(r.sum(term) + 0.0 * r.mean(m(x).mean()))


TERMS: dict[str, Case] = {
    f.__name__: f
    for f in (
        vae,
        sum_and_mean,
        rmse,
        dice,
        by_batch_statistic,
        extremes,
        contrastive,
        half_gathered,
        local_constant,
    )
}


def _penalty(r: Any, m: nn.Module) -> Tensor:
    return sum((r.full(p).pow(2).sum() for n, p in m.named_parameters() if "rare" not in n), torch.zeros(()))


def mean_and_penalty(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.mean(F.cross_entropy(m(x), y)) + 0.3 * _penalty(r, m))


def sum_and_penalty(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.sum(m(x).pow(2).sum()) + 0.3 * _penalty(r, m))


def penalty_alone(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.mean(F.cross_entropy(m(x), y)))
    r.backward(0.3 * _penalty(r, m))


PENALTIES: dict[str, Case] = {f.__name__: f for f in (mean_and_penalty, sum_and_penalty, penalty_alone)}


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
