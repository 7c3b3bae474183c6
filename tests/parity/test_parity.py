"""The promise, run for real: each fixture on one process against its conversion on two and three."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.cases import CASES, Case
from tests.parity.harness import (
    DDP,
    TARGETS,
    Originals,
    Target,
    assert_larger_batch,
    assert_parity,
    assert_same_alone,
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


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@all_targets
def test_three_ranks(case: Case, target: Target, originals: Originals, pool3: Pool, tmp_path: Path) -> None:
    assert_parity(case, target, originals, pool3, tmp_path)


@pytest.mark.parametrize("case", [c for c in CASES if c.accumulate], ids=lambda c: c.name)
@all_targets
def test_accumulate(case: Case, target: Target, originals: Originals, pool2: Pool, tmp_path: Path) -> None:
    bare = Target(target.backend, target.zero_stage, accumulate=4)
    assert_larger_batch(case, bare, originals, pool2, tmp_path)
