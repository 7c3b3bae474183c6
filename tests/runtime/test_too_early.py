"""Public functions before `init`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from tests.pool import Pool


def too_early() -> list[str]:
    from distify import runtime as r

    model, x = nn.Linear(2, 2), torch.ones(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    calls: dict[str, Callable[[], Any]] = {
        **{name: getattr(r, name) for name in ("device", "rank", "world_size", "is_main", "barrier", "accumulate")},
        **{name: lambda name=name: getattr(r, name)(x.sum()) for name in ("averaged", "mean", "sum", "max", "min")},
        "prepare": lambda: r.prepare(model, optimizer),
        "shard": lambda: r.shard(DataLoader(x)),  # type: ignore[arg-type]
        "cycle": lambda: next(iter(r.cycle(DataLoader(x)))),  # type: ignore[arg-type]
        "split": lambda: r.split(x),
        "replicated": lambda: r.replicated(torch.rand, 1),
        "gather": lambda: r.gather(x),
        "draw": lambda: r.draw(torch.randn, 3),
        "full": lambda: r.full(model.weight),
        "whole": lambda: r.whole(model).__enter__(),
        "autocast": lambda: r.autocast().__enter__(),
        "backward": lambda: r.backward(model(x).sum()),
        "grad": lambda: r.grad(model(x).sum(), model.weight),
        "clip_grad_norm_": lambda: r.clip_grad_norm_(model.parameters(), 1.0),
        "clip_grad_value_": lambda: r.clip_grad_value_(model.parameters(), 1.0),
        "step": lambda: r.step(optimizer),
        "scaler": lambda: r.scaler().get_scale(),
        "any": lambda: r.any(True),
        "on_main": lambda: r.on_main(print),
        "main_first": lambda: r.main_first().__enter__(),
        "save": lambda: r.save({}, "absent/file"),
        "load": lambda: r.load("absent/file"),
        "save_state": lambda: r.save_state("absent"),
        "load_state": lambda: r.load_state("absent"),
        "stopping": lambda: r.stopping(),
        "latest": lambda: r.latest("absent"),
        "state_dict": lambda: r.state_dict(model),
        "load_state_dict": lambda: r.load_state_dict(model, {}),
        "clone": lambda: r.clone(model),
    }
    wrong = sorted({*r.__all__} - {*calls, "init", "shutdown", "frozen"})
    for name, call in calls.items():
        try:
            call()
            wrong.append(f"{name} goes on")
        except r.state.NotInitialized as error:
            if f"runtime.{name}() was called before runtime.init(). Call runtime.init() once" not in str(error):
                wrong.append(f"{name}: {error}")
    return wrong


def test_before_init(pool2: Pool) -> None:
    """Every public function says so, also in a process that a launcher started; `frozen` and `shutdown` need no run."""
    assert pool2.run(too_early) == [[], []]
