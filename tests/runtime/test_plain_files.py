"""Plain files of a whole run: groups, frozen parameters, scheduler, scaler, random states; original to runtime and back."""

from __future__ import annotations

import random
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.pool import Pool
from tests.runtime.programs import Original, batches, gap, model
from tests.runtime.test_checkpoint import BACKENDS


class Plain(Original):
    save = staticmethod(torch.save)
    load = staticmethod(lambda path: torch.load(path, weights_only=False))

    autocast = staticmethod(nullcontext)

    @staticmethod
    def scaler() -> Any:
        return torch.amp.GradScaler("cpu", init_scale=8.0)


def train(r: Any, m: Any, optimizer: Any, scaler: Any) -> list[float]:
    shown = []
    for batch in batches(2):
        x, y = r.split(batch)
        optimizer.zero_grad()
        with r.autocast():
            loss = r.mean(F.cross_entropy(m(x), y))
        r.backward(scaler.scale(loss))
        scaler.step(optimizer)
        scaler.update()
        shown.append(loss.item())
    return shown


def part(r: Any, source: str | None, target: str, seed: int) -> tuple[Any, ...]:
    """One part of a run, as scripts write it: everything in one dict; what it prints."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    m = model(seed)
    trained = [(n, p) for n, p in m.named_parameters() if "unused" not in n]
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for n, p in trained if p.dim() > 1], "lr": 0.01},
            {"params": [p for n, p in trained if p.dim() < 2], "weight_decay": 0.0},
        ],
        0.02,
        weight_decay=0.1,
    )
    r.prepare(m, optimizer)
    scheduler, scaler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8), r.scaler()
    generator = torch.Generator().manual_seed(seed)
    if source is not None:
        saved = r.load(source)
        r.load_state_dict(m, saved["model"])
        r.load_state_dict(optimizer, saved["optimizer"])
        r.load_state_dict(scheduler, saved["scheduler"])
        scaler.load_state_dict(saved["scaler"])
        torch.set_rng_state(saved["rng"]["torch"])
        random.setstate(saved["rng"]["python"])
        np.random.set_state(saved["rng"]["numpy"])
        generator.set_state(saved["generator"])
    drawn = torch.rand(2).tolist(), random.random(), np.random.rand(), torch.rand(1, generator=generator).item()
    losses = train(r, m, optimizer, scaler)
    r.step(scheduler)
    checkpoint = {
        "model": r.state_dict(m),
        "optimizer": r.state_dict(optimizer),
        "scheduler": r.state_dict(scheduler),
        "scaler": scaler.state_dict(),
        "rng": {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": np.random.get_state()},
        "generator": generator.get_state(),
    }
    r.save(checkpoint, target)
    return drawn, losses, [group["lr"] for group in optimizer.param_groups]


class Runtime:
    """The runtime's functions, as a converted script calls them: it trusts its own files."""

    def __init__(self, runtime: Any) -> None:
        self.__dict__.update({name: getattr(runtime, name) for name in runtime.__all__})
        self.load = lambda path: runtime.load(path, weights_only=False)
        self.scaler = lambda: runtime.scaler(init_scale=8.0)


def part_on(options: dict[str, Any], source: str, target: str, seed: int) -> tuple[Any, ...]:
    from distify import runtime

    runtime.init(**options)
    return part(Runtime(runtime), source, target, seed)


ROUTES = [
    (2, "ddp", "fp32", 3, "fsdp", "fp16"),
    (3, "zero1", "fp32", 1, "ddp", "fp32"),
    (1, "ddp", "fp16", 2, "zero3", "fp32"),
    (3, "zero2", "bf16", 2, "ddp", "fp16"),
]


@pytest.mark.parametrize("route", ROUTES)
def test_a_file_of_a_whole_run_goes_there_and_back(route: Any, tmp_path: Path, pool2: Pool, pool3: Pool) -> None:
    from distify import runtime

    def on(size: int, backend: str, precision: str, *args: Any) -> tuple[Any, ...]:
        options = {**BACKENDS[backend], "precision": precision}
        if size > 1:
            found = {2: pool2, 3: pool3}[size].run(part_on, options, *args)
            assert all(one == found[0] for one in found)
            return found[0]
        try:
            return part_on(options, *args)
        finally:
            runtime.shutdown()

    file = [str(tmp_path / f"{k}.pt") for k in range(4)]
    part(Plain, None, file[0], 0)
    shown = [on(*route[:3], file[0], file[1], 5), on(*route[3:], file[1], file[2], 6), part(Plain, file[2], file[3], 7)]
    exact = route[2] == route[5] == "fp32"
    for k, found in enumerate(shown):
        expected = part(Plain, file[k], str(tmp_path / "expected.pt"), 8)
        assert found[0] == expected[0]
        assert found[2] == pytest.approx(expected[2])
        assert found[1] == pytest.approx(expected[1], abs=1e-4 if exact else 0.2)
        ours, theirs = (torch.load(name, weights_only=False) for name in (file[k + 1], str(tmp_path / "expected.pt")))
        if k < 2 and route[2 + 3 * k] != "fp16":  # such a run has no scale, and hands on what it has read
            assert ours["scaler"].pop("_growth_tracker") == theirs["scaler"].pop("_growth_tracker") - 2
        assert repr(ours.pop("rng")) == repr(theirs.pop("rng"))
        places = gap(ours, theirs)
        assert places.pop("") <= (2e-5 if exact else 0.2)
        assert [place for place in places.values() if exact or isinstance(place, str)] == []  # keys, shapes, types
