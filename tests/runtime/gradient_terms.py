"""Losses of several terms, and losses that are no plain mean, as cases (see `gradient_cases`)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.runtime.gradient_models import CLASSES, Case


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


def penalty(r: Any, m: nn.Module) -> Tensor:
    return sum((r.full(p).pow(2).sum() for n, p in m.named_parameters() if "rare" not in n), torch.zeros(()))


def mean_and_penalty(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.mean(F.cross_entropy(m(x), y)) + 0.3 * penalty(r, m))


def sum_and_penalty(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.sum(m(x).pow(2).sum()) + 0.3 * penalty(r, m))


def penalty_alone(r: Any, m: nn.Module, x: Tensor, y: Tensor) -> None:
    r.backward(r.mean(F.cross_entropy(m(x), y)))
    r.backward(0.3 * penalty(r, m))


PENALTIES: dict[str, Case] = {f.__name__: f for f in (mean_and_penalty, sum_and_penalty, penalty_alone)}
