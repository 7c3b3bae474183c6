"""The promise, run for real: each fixture on one process against its conversion on two and three."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.parity.cases import CASES, Case
from tests.parity.compare import assert_files_equal, assert_output_equal
from tests.parity.harness import (
    DDP,
    FSDP,
    TARGETS,
    Originals,
    Refused,
    Target,
    assert_larger_batch,
    assert_parity,
    assert_same_alone,
    converted,
    run_converted,
)
from tests.pool import Pool

STAGES = [target for target in TARGETS if target.zero_stage]


def targets(cases: Sequence[Case], ranks: int) -> list[tuple[Case, Target]]:
    """What each fixture runs on: all targets on two ranks, but for one stage of ZeRO; that one, and ddp or fsdp, on three.

    Stages take turns. What three ranks change are the slices of a batch, which all backends get in the same way, and the
    parts of parameters, which each kind of backend cuts in one way for all fixtures.
    """
    pairs = []
    for k, case in enumerate(cases):
        apart = STAGES[k % len(STAGES)]
        few = [(DDP, FSDP)[k % 2], apart]
        pairs += [(case, t) for t in (few if ranks == 3 else [t for t in TARGETS if t != apart])]
    return pairs


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_one_process(case: Case, originals: Originals, tmp_path: Path) -> None:
    assert_same_alone(case, DDP, originals, tmp_path)


@pytest.mark.parametrize(("case", "target"), targets(CASES, 2), ids=lambda item: item.name)
def test_two_ranks(case: Case, target: Target, originals: Originals, pool2: Pool, tmp_path: Path) -> None:
    assert_parity(case, target, originals, pool2, tmp_path)


@pytest.mark.parametrize(("case", "target"), targets(CASES, 3), ids=lambda item: item.name)
def test_three_ranks(case: Case, target: Target, originals: Originals, pool3: Pool, tmp_path: Path) -> None:
    assert_parity(case, target, originals, pool3, tmp_path)


def windows() -> list[tuple[Case, Target]]:
    """Fixtures with a larger batch, on ddp and fsdp, and on one stage of ZeRO: windows are the same to all of them."""
    cases = [case for case in CASES if case.accumulate]
    return [(case, target) for k, case in enumerate(cases) for target in (DDP, FSDP, STAGES[k % len(STAGES)])]


@pytest.mark.parametrize(("case", "target"), windows(), ids=lambda item: item.name)
def test_accumulate(case: Case, target: Target, originals: Originals, pool2: Pool, tmp_path: Path) -> None:
    bare = Target(target.backend, target.zero_stage, accumulate=4)
    assert_larger_batch(case, bare, originals, pool2, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_accumulate_on_more_processes(case: Case, originals: Originals, pool2: Pool, tmp_path: Path) -> None:
    target = Target("ddp", accumulate=3)
    if case.no_window:
        with pytest.raises(Refused, match=case.no_window):
            converted(case.name, target)
        return
    alone = run_converted(case, target, originals.pool, tmp_path / "alone", case.runs, case.env)
    shared = run_converted(case, target, pool2, tmp_path / "shared", case.runs, case.env)
    assert_output_equal(alone.stdout, shared.stdout)
    assert_files_equal(alone.folder, shared.folder)
