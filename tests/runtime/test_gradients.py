"""Gradients of the whole batch from slices: every program on each backend, every loss of the table on ddp."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.pool import Pool
from tests.runtime import gradient_cases as cases
from tests.runtime.gradient_cases import CASES, LOSSES, PENALTIES, PROGRAMS, TERMS, WHOLE

# What a backend is tested with: the type of its parameters, the tolerance, and the groups of cases that it takes.
# What a loss divides by is the same for all backends: ddp runs all losses, the others those that differ in kind.
EVERYTHING = (*LOSSES, *TERMS, *PENALTIES, *PROGRAMS, *WHOLE, "normed")
FEW = ("cross_entropy", "cross_entropy_weighted", "masked", "sum", *TERMS, *PENALTIES, *PROGRAMS, *WHOLE, "normed")
# What a backend can't do: gradients of gradients in `.grad` are refused where these lie in parts, and so are gradients
# put there by hand with ZeRO 3. A forward that only some ranks run would wait for the others where it gathers.
# Reentrant checkpointing computes gradients in pieces, which DeepSpeed's hooks refuse.
NOT = {
    "fsdp": {"differentiated_twice", "local_constant"},
    "zero1": {"differentiated_twice"},
    "zero2": {"differentiated_twice", "reentrant"},
    "zero3": {"differentiated_twice", "reentrant", "local_constant", "hand_made"},
}
BACKENDS: dict[str, tuple[torch.dtype, float, tuple[str, ...]]] = {
    "ddp": (torch.float64, 1e-10, EVERYTHING),
    "fsdp": (torch.float64, 1e-10, tuple(name for name in FEW if name not in NOT["fsdp"])),
    **{z: (torch.float32, 1e-4, tuple(n for n in FEW if n not in NOT[z])) for z in ("zero1", "zero2", "zero3")},
}
SIZES = (7, 2, 1)  # rows of the batch: slices of unequal size, and ranks without a row
RUNS = [
    *(("ddp", ranks, n) for ranks in (2, 3) for n in SIZES),
    *(("fsdp", ranks, n) for ranks, n in ((2, 7), (2, 1), (3, 2))),
    *((zero, 2, 7) for zero in ("zero1", "zero2", "zero3")),
    ("zero2", 3, 2),
    ("zero3", 3, 2),
]


def step(backend: str, names: list[str], n: int, dtype: torch.dtype) -> dict[str, float | str]:
    """Runs on each rank: largest difference to the original by case, or the error."""
    from distify import runtime
    from distify.runtime.state import state

    found: dict[str, float | str] = {}
    for name in names:
        expected = cases.reference(name, n, dtype)
        zero = backend.startswith("zero")
        runtime.init(backend="deepspeed" if zero else backend, zero_stage=int(backend[-1]) if zero else None)
        model = cases.build(name, dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        runtime.prepare(model, optimizer)
        x, y = runtime.split(cases.data(n, dtype))
        try:
            CASES[name](runtime, model, x, y)
            runtime.step(optimizer)
            assert state.backend is not None
            found[name] = difference(state.backend.state_dict(model), expected)
        finally:
            runtime.shutdown()
    return found


def difference(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    assert found.keys() == expected.keys()
    worst = 0.0
    for key, value in expected.items():
        assert found[key].shape == value.shape, key
        gap = (found[key].double() - value.double()).abs().max().item()
        assert gap == gap, f"{key} is NaN"
        worst = max(worst, gap)
    return worst


@pytest.mark.parametrize(("backend", "ranks", "n"), RUNS)
def test_a_step_equals_the_original_s(backend: str, ranks: int, n: int, pool2: Pool, pool3: Pool) -> None:
    dtype, tolerance, names = BACKENDS[backend]
    fit = [name for name in names if _defined(name, n)]
    for found in (pool2 if ranks == 2 else pool3).run(step, backend, fit, n, dtype):
        wrong = {name: gap for name, gap in found.items() if not gap <= tolerance}  # type: ignore[operator]
        assert not wrong
        assert list(found) == fit


def _defined(name: str, n: int) -> bool:
    """Whether the original's own result is a number at this size (one row has no variance, and may be masked)."""
    try:
        return all(torch.isfinite(v).all() for v in cases.reference(name, n, torch.float64).values())
    except ValueError:
        return False


def test_the_cases_tell_local_means_from_global_ones() -> None:
    """The naive conversion, the average of what slices compute, fails most of these cases."""
    x, y = cases.data(7, torch.float64)
    right = []
    for name in [*LOSSES, *TERMS]:
        moved = []
        for rows in ([0, 1, 2, 3], [4, 5, 6]):
            model = cases.build(name, torch.float64)
            CASES[name](cases.Plain, model, x[rows], y[rows])
            torch.optim.SGD(model.parameters(), lr=1.0).step()
            moved.append(nn.utils.parameters_to_vector(model.parameters()))
        expected = torch.cat([v.flatten() for v in cases.reference(name, 7, torch.float64).values()])
        if (torch.stack(moved).mean(0) - expected).abs().max().item() < 1e-6:
            right.append(name)
    assert right == []
