"""What `test_hybrid.py` runs on four ranks: models cut over pairs of them, as over the processes of two machines."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.runtime.programs import PROGRAMS, Original, autocast_steps, batches, gap, model

# Blocks are groups of their own, given back between forward and backward; or the model is one group, and kept.
LAYOUTS = {"blocks": (0, 0), "root": (10**9, 2**31)}
PLANS = {
    "blocks": ("late_part", "large_raw"),
    "root": ("evaluation_between",),
}


class Odd(nn.Module):
    """Sizes that two ranks can't share evenly, one that leaves a rank without a part, tied weights, a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 5)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 3), nn.Linear(3, 5)) for _ in range(2))
        self.gain = nn.Parameter(torch.ones(1, 5))
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.out = nn.Linear(5, 7, bias=False)
        self.out.weight = self.words.weight

    def forward(self, x: Any) -> Any:
        x = self.words(x) * self.gain
        for block in self.blocks:
            x = x + block(x)
        found: Any = self.out(x * self.scale)
        return found


def odd(r: Any, **options: Any) -> Any:
    """Windows of two batches, clipped, with a gradient penalty computed apart."""
    torch.manual_seed(1)
    m = Odd()
    optimizer = torch.optim.AdamW(m.parameters(), 0.02, weight_decay=0.1)
    r.prepare(m, optimizer)
    generator = torch.Generator().manual_seed(4)
    shown = []
    for k in range(3):
        rows = torch.randint(0, 7, (8, 3), generator=generator)
        x, y = r.split((rows[:, :2], rows[:, 2]))
        optimizer.zero_grad()
        loss = r.mean(F.cross_entropy(m(x)[:, -1], y))
        slopes = r.grad(loss, list(m.parameters()), retain_graph=True)
        total = sum(whole(slope).norm().item() for slope in slopes)
        r.backward(loss)
        shown += [
            loss.item(),
            total,
            r.clip_grad_norm_(m.parameters(), 0.5, norm_type=2.0 if k % 2 else float("inf")).item(),
        ]
        r.step(optimizer)
    return shown, r.state_dict(m), r.state_dict(optimizer)


def whole(x: Any) -> Any:
    return x.full_tensor() if hasattr(x, "full_tensor") else x


def windows(r: Any, split: int) -> Any:
    """A step of each two batches of 4 rows on a runtime, of one batch of 8 in the original."""
    m = model()
    optimizer = torch.optim.SGD([p for p in m.parameters() if p.requires_grad], 0.1, momentum=0.9)
    r.prepare(m, optimizer)
    shown = []
    for x, y in batches(3, (8,)):
        for part in range(split):
            rows = slice(part * 8 // split, (part + 1) * 8 // split)
            mine, theirs = r.split((x[rows], y[rows]))
            with r.accumulate(last=part == split - 1) as window:
                if window.starts:
                    optimizer.zero_grad()
                r.backward(r.mean(F.cross_entropy(m(mine), theirs)))
                if window.ends:
                    shown.append(r.clip_grad_norm_(m.parameters(), 0.3).item())
                    r.step(optimizer)
    return shown, r.state_dict(m), r.state_dict(optimizer)


def reduced(runtime: Any, backend: str, **options: Any) -> Any:
    """Losses, norms and weights in bf16."""
    runtime.init(backend=backend, precision="bf16", **options)
    found = autocast_steps(runtime, 3)
    runtime.shutdown()
    return found


def compared() -> dict[str, Any]:
    """By what was run: places that differ from the original, and the largest difference under ''."""
    from distify import runtime
    from distify.runtime.backends import fsdp_plan

    found = {}

    def compare(name: str, program: Any, original: Any, **options: Any) -> None:
        torch.manual_seed(0)
        expected = original(Original)
        torch.manual_seed(0)
        runtime.init(backend="fsdp", shard_size=2, **options)
        found[name] = gap(program(runtime), expected)
        runtime.shutdown()

    for layout, names in reversed(PLANS.items()):
        fsdp_plan.BLOCK, fsdp_plan.KEEP = LAYOUTS[layout]
        for name in names:
            compare(name, PROGRAMS[name], PROGRAMS[name])
    compare("odd", odd, odd)
    compare("windows", lambda r: windows(r, 2), lambda r: windows(r, 1), accumulate=2)
    found["bf16"] = gap(reduced(runtime, "fsdp", shard_size=2), reduced(runtime, "ddp"))
    return found


def legs(folder: str, backends: list[str]) -> list[Any]:
    """Parts of a run, each of which goes on from what the one before saved."""
    from distify import runtime
    from tests.runtime import test_saved_state

    found = []
    for k, backend in enumerate(backends):
        found.append(test_saved_state.leg(backend, folder, k + 5 if k else 0, k > 0))
        runtime.shutdown()
    return found


def main(out: str, folder: str) -> None:
    """Run on each rank, in a process group of the script's own; rank 0 writes what all have found."""
    dist.init_process_group("gloo")
    found = compared(), legs(folder, ["hybrid", "hybrid"])
    everywhere: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, found)
    if dist.get_rank() == 0:
        torch.save(everywhere, out)
