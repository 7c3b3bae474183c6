"""The promise, run for real: each fixture on one process against its conversion on two and three."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.cases import CASES, Case
from tests.parity.compare import assert_files_equal, assert_output_equal
from tests.parity.harness import (
    DDP,
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

all_targets = pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_one_process(case: Case, originals: Originals, tmp_path: Path) -> None:
    assert_same_alone(case, DDP, originals, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@all_targets
def test_two_ranks(case: Case, target: Target, originals: Originals, pool2: Pool, tmp_path: Path) -> None:
    assert_parity(case, target, originals, pool2, tmp_path)


def in_turn() -> list[tuple[Case, Target]]:
    """Each fixture on ddp and fsdp, and on one stage of ZeRO: two ranks run them all, and the stages split alike."""
    stages = [target for target in TARGETS if target.zero_stage]
    others = [target for target in TARGETS if not target.zero_stage]
    return [(case, target) for k, case in enumerate(CASES) for target in (*others, *stages[k % 3 : k % 3 + 1])]


@pytest.mark.parametrize(("case", "target"), in_turn(), ids=lambda item: item.name)
def test_three_ranks(case: Case, target: Target, originals: Originals, pool3: Pool, tmp_path: Path) -> None:
    assert_parity(case, target, originals, pool3, tmp_path)


@pytest.mark.parametrize("case", [c for c in CASES if c.accumulate], ids=lambda c: c.name)
@all_targets
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
