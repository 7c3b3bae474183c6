"""Every loss of `torch.nn.functional` with its divisor, as cases (see `gradient_cases`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.runtime.gradient_models import CLASSES, Case, rows

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
